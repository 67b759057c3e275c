// How requests come to the engine's core.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "engine/core.h"
#include "engine/sampler.h"

namespace ingot {
namespace {

constexpr int kMaxPriority = 100;

// What decides the content of pages beside the tokens. The lengths keep parts from running into each other.
std::string content_space(const Request& request, const std::string& kv_format) {
  return fmt::format("{}:{}{}:{}{}:{}{}", request.tenant.size(), request.tenant, request.adapter.size(),
                     request.adapter, request.media.size(), request.media, kv_format);
}

void sort_unique(std::vector<int32_t>& tokens) {
  std::ranges::sort(tokens);
  tokens.erase(std::ranges::unique(tokens).begin(), tokens.end());
}

// None where there is no such bias.
std::unique_ptr<EndlessBiases> endless_biases(const SamplingParams& params) {
  const auto endless = [](const auto& bias) { return std::isinf(bias.second); };
  if (std::ranges::none_of(params.logit_bias, endless)) return nullptr;
  auto found = std::make_unique<EndlessBiases>(EndlessBiases{.sampling = params, .forced = {}, .refused = {}});
  for (const auto& [token, bias] : params.logit_bias) {
    if (std::isinf(bias)) (bias > 0 ? found->forced : found->refused).push_back(token);
  }
  sort_unique(found->forced);
  sort_unique(found->refused);
  std::erase_if(found->sampling.logit_bias, endless);
  return found;
}

}  // namespace

std::string EngineCore::refusal(const Request& request) const {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int context = limits_.context;
  if (prompt == 0) return "the prompt is empty";
  // One more position must be left where a token is to be made.
  if (prompt + (request.max_tokens == 0 ? 0 : 1) > context) {
    return fmt::format("the prompt has {} tokens, the context is {}", prompt, context);
  }
  if (request.max_tokens < -1) return fmt::format("max_tokens is {}", request.max_tokens);
  if (request.min_tokens < 0) return fmt::format("min_tokens is {}", request.min_tokens);
  const int longest = longest_of(request, context);
  if (!pages_.can_ever_fit(longest)) return fmt::format("{} tokens need more pages than the KV cache has", longest);
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= options_.vocab) {
      return fmt::format("token {} is outside the vocabulary of {}", token, options_.vocab);
    }
  }
  if (request.choices < 1 || request.choices > Request::kMaxChoices) {
    return fmt::format("{} choices, expected 1 to {}", request.choices, Request::kMaxChoices);
  }
  if (request.priority < -kMaxPriority || request.priority > kMaxPriority) {
    return fmt::format("priority is {}, expected {} to {}", request.priority, -kMaxPriority, kMaxPriority);
  }
  if (!(request.queue_seconds >= 0 && request.queue_seconds <= 1e6)) {
    return fmt::format("queue_seconds is {}, expected 0 to 1000000", request.queue_seconds);
  }
  if (!(request.deadline_seconds >= 0 && request.deadline_seconds <= 1e6)) {
    return fmt::format("deadline_seconds is {}, expected 0 to 1000000", request.deadline_seconds);
  }
  if (!(request.weight >= Request::kLeastWeight && request.weight <= Request::kMostWeight)) {
    return fmt::format("weight is {}, expected {} to {}", request.weight, Request::kLeastWeight, Request::kMostWeight);
  }
  if (request.on_logits && request.choices > 1) return "logits are reported of one choice";
  if (request.drafter && request.on_logits) return "logits of guesses are not reported: no drafter with on_logits";
  if (request.on_hidden && !options_.has_hidden) return "the model does not keep its hidden state";
  if (request.on_hidden && request.choices > 1) return "hidden states are reported of one choice";
  if (request.on_hidden && request.drafter)
    return "hidden states of guesses are not reported: no drafter with on_hidden";
  return check_sampling(request.sampling, options_.vocab);
}

std::unique_ptr<Sequence> EngineCore::make_seq(const std::shared_ptr<const Request>& request, SeqId id, int choice,
                                               int64_t came_ns) {
  auto seq = std::make_unique<Sequence>();
  seq->id = id + choice;
  seq->choice = request->first_choice + choice;
  seq->request = request;
  if (request->constraint) {
    seq->masking = std::make_shared<MaskTask>(request, request->constraint->clone(), endless_biases(request->sampling),
                                              options_.vocab);
  }
  seq->tokens = request->prompt;
  seq->came_ns = came_ns;
  seq->rank = came_ns - static_cast<int64_t>(request->priority * Scheduler::kPrioritySeconds * 1e9);
  if (request->queue_seconds > 0) {
    seq->deadline_ns = came_ns + static_cast<int64_t>(request->queue_seconds * 1e9);
  }
  if (request->deadline_seconds > 0) {
    seq->timeout_ns = came_ns + static_cast<int64_t>(request->deadline_seconds * 1e9);
  }
  return seq;
}

Submitted EngineCore::submit(Request request, SeqId id, int64_t came_ns) {
  if (std::string reason = refusal(request); !reason.empty()) {
    ++stats_.refused;
    return {.id = -1, .refused = std::move(reason)};
  }
  if (id < 0) {
    tell_admission();
    const Admission::Answer answer = admission_.ask(request, limits_.seqs - scheduler_.n_running());
    if (!answer.in) {
      ++stats_.busy;
      stats_.late += answer.late;
      return {.id = -1, .refused = {}, .busy = true, .late = answer.late, .retry_seconds = answer.retry_seconds};
    }
    admission_.arrived(request);
  }
  sort_unique(request.end_tokens);
  const auto shared = std::make_shared<const Request>(std::move(request));
  if (id < 0) {
    id = next_id_;
    next_id_ += shared->choices;
  }
  for (int c = 0; c < shared->choices; ++c) CHECK(!seqs_.contains(id + c), "there is a seq {} already", id + c);
  std::vector<std::unique_ptr<Sequence>> made;
  if (came_ns == 0) came_ns = options_.now_ns();
  for (int c = 0; c < shared->choices; ++c) made.push_back(make_seq(shared, id, c, came_ns));
  Sequence& first = *made[0];
  first.followers.reserve(made.size());
  seqs_.reserve(seqs_.size() + made.size());
  try {
    const std::string space = content_space(*shared, options_.kv_format);
    for (std::unique_ptr<Sequence>& seq : made) {
      Sequence& added = *seq;
      seqs_.emplace(added.id, std::move(seq));
      if (prefix_ && shared->reuse_prefix) added.prefix_root = prefix_->root(space, shared->tenant, shared->weight);
      scheduler_.add(added, &added != &first);
      if (&added == &first) continue;
      added.first = &first;
      first.followers.push_back(&added);
    }
  } catch (const std::bad_alloc&) {
    cancel(id);
    throw;
  }
  if (first.deadline_ns > 0) await_deadline(first.deadline_ns);
  if (first.timeout_ns > 0) await_deadline(first.timeout_ns);
  ++stats_.submitted;
  return {.id = id, .refused = {}};
}

}  // namespace ingot
