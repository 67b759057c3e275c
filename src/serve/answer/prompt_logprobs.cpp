#include "serve/answer/prompt_logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ingot {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float number(float logit) { return std::isnan(logit) ? kNever : logit; }

}  // namespace

ScoredToken score_token(std::span<const float> logits, Token token, size_t top) {
  ScoredToken result{.token = token, .logprob = kNever};
  float largest = kNever;
  for (const float logit : logits) largest = std::max(largest, number(logit));
  if (!std::isfinite(largest)) return result;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(number(logit)) - largest);
  const double log_sum = largest + std::log(sum);
  const auto logprob = [&](size_t id) { return static_cast<float>(number(logits[id]) - log_sum); };
  if (token >= 0 && static_cast<size_t>(token) < logits.size()) result.logprob = logprob(static_cast<size_t>(token));

  // The likeliest so far, the least likely last: `top` is small, and most tokens are less likely than all of them.
  std::vector<size_t> best;
  for (size_t id = 0; id < logits.size() && top > 0; ++id) {
    if (best.size() == top && !(number(logits[id]) > number(logits[best.back()]))) continue;
    const auto place = std::ranges::find_if(best, [&](size_t b) { return number(logits[id]) > number(logits[b]); });
    best.insert(place, id);
    if (best.size() > top) best.pop_back();
  }
  for (const size_t id : best) result.top.push_back({.token = static_cast<Token>(id), .logprob = logprob(id)});
  return result;
}

PromptLogprobs::PromptLogprobs(std::vector<Token> prompt, int top)
    : prompt_(std::move(prompt)),
      top_(static_cast<size_t>(std::max(top, 0))),
      logprobs_(prompt_.size()),
      n_tops_(prompt_.size()),
      tops_((CheckedSize(prompt_.size(), "[logprobs] of a prompt") * top_).as_size()) {}

CheckedSize PromptLogprobs::bytes(size_t prompt, int top) {
  const size_t each = sizeof(Token) + sizeof(float) + sizeof(uint32_t);
  return CheckedSize(prompt, "[logprobs] of a prompt") * (CheckedSize(std::max(top, 0)) * sizeof(TokenLogprob) + each);
}

void PromptLogprobs::take(int position, std::span<const float> logits) {
  const auto next = static_cast<size_t>(position) + 1;
  if (next >= prompt_.size()) return;  // of the answer
  const ScoredToken score = score_token(logits, prompt_[next], top_);
  logprobs_[next] = score.logprob;
  n_tops_[next] = static_cast<uint32_t>(score.top.size());
  std::ranges::copy(score.top, tops_.begin() + static_cast<std::ptrdiff_t>(next * top_));
}

PromptScore PromptLogprobs::at(size_t i) const {
  return {.token = prompt_[i],
          .scored = i > 0,
          .logprob = logprobs_[i],
          .top = std::span(tops_).subspan(i * top_, n_tops_[i])};
}

std::vector<size_t> PromptLogprobs::offsets(const Tokenizer& tokenizer, std::string_view text) const {
  std::vector<size_t> offsets;
  offsets.reserve(prompt_.size());
  const size_t length = count_characters(text);
  StreamDecoder decoder(tokenizer);
  size_t offset = 0;
  for (const Token token : prompt_) {
    offsets.push_back(std::min(offset, length));
    if (tokenizer.contains(token)) offset += count_characters(decoder.push(token));
  }
  return offsets;
}

}  // namespace ingot
