// ingot run [MODEL] PROMPT: one answer, streamed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/constraint_options.h"
#include "cli/interrupt.h"
#include "cli/json_lines.h"
#include "cli/sampling_options.h"
#include "cli/session.h"
#include "files/directory.h"

namespace ingot {

namespace {

struct Options {
  std::vector<std::string> words;  // [MODEL] PROMPT
  SessionOptions session;
  SamplingOptions sampling;
  ConstraintArguments constraint;
  std::string system;
  bool raw = false;
  bool parse_special = false;
  bool stats = false;
  int logprobs = -1;
  std::string prompt;
};

// Whether a single argument is surely meant as MODEL, not as PROMPT.
bool looks_like_model(const std::string& word) {
  return exists(word) && (word.ends_with(".gguf") || exists(word + "/config.json"));
}

// Sorts the positional arguments into MODEL and PROMPT.
void take_words(Options& options) {
  const bool has_model = !options.session.model.empty();
  const std::vector<std::string>& words = options.words;
  if (words.size() > 2 || (words.size() == 2 && has_model)) {
    throw CLI::ValidationError("PROMPT", "a prompt of several words needs quotes");
  }
  if (words.size() == 1 && !has_model && looks_like_model(words[0])) {
    throw CLI::ValidationError("PROMPT", fmt::format("'{}' is a model: the prompt is missing", words[0]));
  }
  if (words.size() == 2) options.session.model = words[0];
  if (words.size() == 2 && !names_model(words[0]) && words[0].find('/') == std::string::npos) {
    throw Error("[model] '{}' is neither a path nor a model of the cache; a prompt of several words needs quotes",
                words[0]);
  }
  options.prompt = words.back();
}

std::vector<Token> encode(Session& session, const Options& options) {
  std::string text = options.prompt == "-" ? read_stdin() : options.prompt;
  if (options.raw || !session.has_template()) {
    if (!options.system.empty())
      throw Error("[run] --system needs a chat template, and {} is used without one",
                  options.raw ? "with --raw the model" : "this model");
    return session.encode_text(text, options.parse_special);
  }
  // The line break that a pipe ends with is not meant.
  if (options.prompt == "-" && text.ends_with('\n')) text.pop_back();
  JsonArray messages;
  if (!options.system.empty()) messages.push_back(JsonObject{{"role", "system"}, {"content", options.system}});
  messages.push_back(JsonObject{{"role", "user"}, {"content", text}});
  return session.encode_chat(messages);
}

Json token_json(const Session& session, Token token, float logprob) {
  const bool known = session.tokenizer().contains(token);
  return JsonObject{
      {"token", token}, {"text", known ? session.tokenizer().token_bytes(token) : ""}, {"logprob", logprob}};
}

JsonArray logprobs_json(const Session& session, const Answer& answer) {
  JsonArray list;
  for (const SampleResult& sample : answer.samples) {
    Json entry = token_json(session, sample.token, sample.logprob);
    JsonArray top;
    for (const TokenLogprob& other : sample.top) top.push_back(token_json(session, other.token, other.logprob));
    entry.as_object()["top"] = std::move(top);
    list.push_back(std::move(entry));
  }
  return list;
}

void print_json(const Session& session, const Answer& answer, const SamplingParams& sampling) {
  JsonObject result{{"text", answer.text},
                    {"tokens", JsonArray(answer.tokens.begin(), answer.tokens.end())},
                    {"finish_reason", finish_reason(answer.end)},
                    {"prompt_tokens", answer.prompt_tokens},
                    {"completion_tokens", answer.tokens.size()},
                    {"seed", sampling.seed}};
  if (sampling.n_logprobs >= 0) result["logprobs"] = logprobs_json(session, answer);
  result["stats"] = stats_json(session, answer);
  fmt::print("{}\n", to_json(result));
}

void print_verbose(Session& session, const SamplingParams& sampling) {
  fmt::print(stderr, "ingot: model {}: {}, context {}, {} threads\n", session.path(), session.model().arch->name,
             session.context(), session.engine().config().threads);
  fmt::print(stderr, "ingot: {}\n", sampling_text(sampling));
}

int run(Options& options) {
  const CommonOptions& common = options.session.common;
  if (options.logprobs >= 0 && !common.json) throw CLI::ValidationError("--logprobs", "needs --json");
  take_words(options);
  Session session = open_session(options.session);
  Question question{.prompt = encode(session, options),
                    .sampling = sampling_params(options.sampling, session.sampling()),
                    .max_tokens = options.sampling.max_tokens,
                    .stop = options.sampling.stop,
                    .continues = options.raw || !session.has_template()};
  question.sampling.n_logprobs = options.logprobs;
  question.constraint = make_constraint(options.constraint, session, question.prompt);
  if (common.verbose) print_verbose(session, question.sampling);

  const InterruptGuard guard;
  const auto show = [&](std::string_view text) {
    if (!common.json) write_text(text);
  };
  const Answer result = answer(session, question, show, interrupted);
  if (common.json) {
    print_json(session, result, question.sampling);
  } else if (!result.text.ends_with('\n')) {
    write_text("\n");
  }
  if (result.end == AnswerEnd::kContextFull) {
    fmt::print(stderr, "ingot: the answer is cut: the context of {} tokens is full\n", session.context());
  }
  if (options.stats) fmt::print(stderr, "{}\n", stats_line(session, result));
  if (result.end == AnswerEnd::kInterrupted) throw Interrupted{};
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("PROMPT", options->words, "[MODEL] PROMPT: the text, or - for standard input")
      ->required()
      ->type_name("");
  app.add_option("-m,--model", options->session.model, "The model, where it is not given before the prompt")
      ->type_name("MODEL");
  app.add_flag("--raw", options->raw, "Go on with the text as it is, without the chat template");
  app.add_flag("--parse-special", options->parse_special, "With --raw: <|im_end|> in the text is that token");
  app.add_option("--system", options->system, "The system message")->type_name("TEXT");
  add_sampling_options(app, options->sampling);
  add_constraint_options(app, options->constraint);
  app.add_flag("--stats", options->stats, "Load time, speed and memory, on stderr");
  add_json_option(app, options->session.common);
  app.add_option("--logprobs", options->logprobs, "With --json: the N most likely at each token")
      ->check(integer_in(0, 1000))
      ->type_name("N");
  add_session_options(app, options->session);
  return [options] { return run(*options); };
}

const std::string kExample = fmt::format(
    "ingot run \"Why is the sky blue?\"\n  ingot run model.gguf --temp 0 -n 64 --raw \"Once upon a time\"\n\n{}",
    more_sampling_options());

}  // namespace

const Command kRunCommand = {"run", "One answer to a prompt", kExample.c_str(), setup};

}  // namespace ingot
