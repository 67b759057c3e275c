#include "serve/api/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>
#include <random>

#include "base/checked_size.h"
#include "serve/answer/prompt_logprobs.h"

namespace ingot {
namespace {

constexpr int kDefaultCompletionTokens = 16;  // OpenAI's

template <class T>
void set_number(const Fields& fields, const char* name, T& target) {
  if (const std::optional<double> value = fields.number(name)) target = static_cast<T>(*value);
}

void read_sampling(const Fields& fields, SamplingParams& sampling) {
  for (const SamplingNumber& n : kSamplingNumbers) {
    // A field may take what stands for an end of the range: top_k -1.
    if (const auto value = fields.number(n.name)) n.set(sampling, std::clamp(*value, n.low, n.high));
  }
  const std::optional<int64_t> seed = fields.integer("seed");
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : fresh_seed();
}

void read_logit_bias(const Fields& fields, const ServedModel& model, SamplingParams& sampling) {
  const JsonObject* biases = fields.object("logit_bias");
  if (!biases) return;
  for (const auto& member : *biases) {
    const std::string_view key(member.key().data(), member.key().size());
    const std::string path = fields.path("logit_bias");
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 || token >= model.vocab) {
      throw bad_field(path, fmt::format("{} names a token that is none of the {} of this model", path, model.vocab));
    }
    const Json& value = member.value();
    const double bias = value.is_number() ? value.to_number<double>() : 1e9;
    if (!(bias >= -100 && bias <= 100)) {
      throw bad_field(path, fmt::format("{} of token {} must be a number from -100 to 100", path, token));
    }
    sampling.logit_bias.emplace_back(token, static_cast<float>(bias));
  }
}

void read_stops(const Fields& fields, const char* name, Generation& generation) {
  if (const std::optional<std::string> stop = fields.string(name)) generation.stops.push_back(*stop);
  if (const JsonArray* stops = fields.array(name)) {
    for (const Json& stop : *stops) generation.stops.emplace_back(stop.get_string().c_str(), stop.get_string().size());
  }
  const std::string path = fields.path(name);
  for (const std::string& stop : generation.stops) {
    if (stop.empty()) throw bad_field(path, fmt::format("{} has an empty string", path));
  }
}

void read_ends(const Fields& fields, const ServedModel& model, Generation& generation) {
  if (!fields.boolean("ignore_eos").value_or(false)) generation.end_tokens = model.end_tokens;
  const JsonArray* ids = fields.array("stop_token_ids");
  for (size_t i = 0; ids && i < ids->size(); ++i) {
    const int64_t id = exact_integer((*ids)[i]).value_or(-1);
    if (id < 0 || id >= model.vocab) {
      const std::string path = fmt::format("{}[{}]", fields.path("stop_token_ids"), i);
      throw bad_field(path, fmt::format("{} is none of the {} tokens of this model", path, model.vocab));
    }
    generation.end_tokens.push_back(static_cast<Token>(id));
  }
}

void read_stream(const Fields& fields, Generation& generation) {
  generation.stream = fields.boolean("stream").value_or(false);
  const JsonObject* options = fields.object("stream_options");
  if (!options) return;
  if (!generation.stream) {
    throw bad_field(fields.path("stream_options"), "stream_options is allowed only where stream is true");
  }
  generation.include_usage = Fields(*options).boolean("include_usage").value_or(false);
}

}  // namespace

int64_t Generation::prompt_tokens() const {
  int64_t sum = 0;
  for (const std::vector<Token>& prompt : prompts) sum += static_cast<int64_t>(prompt.size());
  return sum;
}

size_t Generation::held_bytes() const {
  CheckedSize sum(writer_bytes, "[request] bytes");
  for (const std::vector<Token>& prompt : prompts) {
    sum += CheckedSize(prompt.size()) * sizeof(Token) * (2 + choices);
    if (scores_prompts()) sum += PromptLogprobs::bytes(prompt.size(), sampling.n_logprobs);
  }
  for (const std::string& text : prompt_texts) sum += CheckedSize(text.size()) * 2;  // and in the answer
  for (const ToolSignature& tool : form.signatures) {
    for (const auto& key : tool.keys) sum += sizeof(key) + key.first.size();
  }
  return sum.as_size();
}

void read_wanted(const Fields& fields, const ServedModel& model, Generation& generation) {
  std::optional<ConstraintRequest> request = read_constraint(fields);
  if (request) want(std::move(*request), model.end_tokens, generation);
}

void read_common(const Fields& fields, const ServedModel& model, Generation& generation) {
  generation.sampling = model.sampling;
  read_sampling(fields, generation.sampling);
  read_logit_bias(fields, model, generation.sampling);
  read_stops(fields, "stop", generation);
  read_stops(fields, "stop_sequences", generation);
  read_ends(fields, model, generation);
  read_stream(fields, generation);
  set_number(fields, "n", generation.choices);
  set_number(fields, "priority", generation.priority);
  set_number(fields, "timeout", generation.timeout_seconds);
  set_number(fields, "min_tokens", generation.min_tokens);
  set_number(fields, "max_tokens", generation.max_tokens);
  set_number(fields, "max_completion_tokens", generation.max_tokens);
  set_number(fields, "max_output_tokens", generation.max_tokens);
  generation.reuse_prefix = fields.boolean("cache_prompt").value_or(true);
  if (generation.max_tokens >= 0 && generation.min_tokens > generation.max_tokens) {
    throw bad_field(fields.path("min_tokens"), fmt::format("min_tokens is {}, more than max_tokens, which is {}",
                                                           generation.min_tokens, generation.max_tokens));
  }
  if (const std::optional<int64_t> best = fields.integer("best_of"); best && *best != generation.choices) {
    throw bad_field(fields.path("best_of"), "best_of must be equal to n: no answer is made that is not sent");
  }
}

void check_model(const Fields& fields, const ServedModel& model) {
  const std::optional<std::string> asked = fields.string("model");
  if (!asked || model.answers_to(*asked)) return;
  throw ApiError{
      .status = 404,
      .message = fmt::format("model names what is not served here; what is: {}", fmt::join(model.listed_names(), ", ")),
      .param = "model",
      .code = "model_not_found"};
}

ApiError context_exceeded(const ServedModel& model, const std::string& tokens, const std::string& param) {
  return {.status = 400,
          .message = fmt::format("{} has {} tokens, the context of this model is {} for the prompt and the answer",
                                 param, tokens, model.context),
          .param = param,
          .code = "context_length_exceeded"};
}

void check_prompts(const Generation& generation, const ServedModel& model, const std::string& param) {
  const size_t room = generation.max_tokens == 0 ? 0 : 1;
  for (const std::vector<Token>& prompt : generation.prompts) {
    if (prompt.empty()) throw bad_field(param, fmt::format("{} is empty", param));
    if (prompt.size() + room > static_cast<size_t>(model.context)) {
      throw context_exceeded(model, std::to_string(prompt.size()), param);
    }
  }
  if (generation.total_choices() > kMaxChoices) {
    throw bad_field(
        "n", fmt::format("n is {}, which makes {} answers to {} prompts: at most {} are allowed", generation.choices,
                         generation.total_choices(), generation.prompts.size(), kMaxChoices));
  }
}

void bound_answer(Generation& generation, const ServedModel& model) {
  const int each_scores = 1 + std::max(generation.sampling.n_logprobs, 0);
  const bool scored = generation.sampling.n_logprobs >= 0;
  const int64_t limit = scored ? std::min(kMaxHeldTokens, kMaxHeldScores / each_scores) : kMaxHeldTokens;
  const std::string of_what =
      scored ? fmt::format("tokens with {} log-probabilities each", each_scores) : std::string("tokens");
  const CheckedSize choices(generation.choices, "[request] n");
  const CheckedSize echoed = generation.echo ? choices * generation.prompt_tokens() : CheckedSize(0);
  if (echoed.as_int64() > limit) {
    throw bad_field(
        "echo", fmt::format("echo makes an answer of {} {}: at most {} are allowed", echoed.value(), of_what, limit));
  }
  if (generation.stream) return;  // what is made goes out as it comes
  const int64_t left = limit - echoed.as_int64();
  const auto made = [&](int64_t most) {
    CheckedSize sum(0, "[request] tokens of an answer");
    for (const std::vector<Token>& prompt : generation.prompts) {
      sum += choices * std::min(most, int64_t{model.context} - static_cast<int64_t>(prompt.size()));
    }
    return sum.as_int64();
  };
  const bool given = generation.max_tokens >= 0;
  const int64_t wanted = given ? generation.max_tokens : model.context;
  if (made(wanted) <= left) return;
  const int64_t fits = left / generation.total_choices();
  if (!given && fits > 0 && fits >= generation.min_tokens) {
    generation.max_tokens = static_cast<int>(fits);
    return;
  }
  const char* const name = generation.param == "input" ? "max_output_tokens" : "max_tokens";
  throw bad_field(name, fmt::format("{} lets {} answers have {} {} in all: at most {} are allowed where they are not "
                                    "streamed, {} for each",
                                    name, generation.total_choices(), made(wanted), of_what, left, fits));
}

Generation read_completion(const JsonObject& body, const ServedModel& model, TokenWork* work) {
  const Fields fields(body);
  check_model(fields, model);
  Generation generation;
  generation.param = "prompt";
  read_common(fields, model, generation);
  if (generation.max_tokens < 0) generation.max_tokens = std::max(kDefaultCompletionTokens, generation.min_tokens);
  generation.echo = fields.boolean("echo").value_or(false);
  if (generation.max_tokens == 0 && !generation.echo) {
    throw bad_field("max_tokens", "max_tokens is 0: nothing is asked for without echo");
  }
  generation.sampling.n_logprobs = static_cast<int>(fields.integer("logprobs").value_or(-1));
  generation.continues = true;
  read_wanted(fields, model, generation);
  Prompts prompts = read_prompts(*fields.value("prompt"), "prompt", model, false, work);
  generation.prompts = std::move(prompts.tokens);
  if (generation.echo) generation.prompt_texts = std::move(prompts.texts);
  check_prompts(generation, model, "prompt");
  bound_answer(generation, model);
  return generation;
}

uint64_t fresh_seed() {
  static std::mutex mutex;
  static std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  const std::lock_guard lock(mutex);
  return generator();
}

std::string unique_id(std::string_view prefix) {
  static const uint64_t process = fresh_seed();
  static std::atomic<uint64_t> count{0};
  return fmt::format("{}{:016x}{:08x}", prefix, process, count.fetch_add(1));
}

}  // namespace ingot
