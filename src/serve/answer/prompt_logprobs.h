// The log-probabilities of a prompt's own tokens, from the logits of its rows: echo with logprobs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/checked_size.h"
#include "serve/answer/choice_text.h"

namespace ingot {

// A token of a prompt as logprobs tell of it.
struct PromptScore {
  Token token = -1;
  bool scored = true;  // false: the first token, which nothing predicts
  float logprob = 0;
  std::span<const TokenLogprob> top = {};  // of the PromptLogprobs
};

// One for all choices of a prompt, and in one piece: 8 bytes for each of the likeliest. Filled by the thread that runs
// the model, through Request::on_logits with logits_from 0; read by others after the prompt's first event.
class PromptLogprobs {
 public:
  // `top`: how many of the likeliest are kept at each token.
  PromptLogprobs(std::vector<Token> prompt, int top);
  // What one of so many tokens takes.
  static CheckedSize bytes(size_t prompt, int top);

  // The logits of the row at `position`: they predict the token after it.
  void take(int position, std::span<const float> logits);

  size_t size() const { return prompt_.size(); }
  // REQUIRES: i < size().
  PromptScore at(size_t i) const;
  // Characters before each token in `text`, which the tokens spell.
  std::vector<size_t> offsets(const Tokenizer& tokenizer, std::string_view text) const;

 private:
  const std::vector<Token> prompt_;
  const size_t top_;
  std::vector<float> logprobs_;     // [prompt]
  std::vector<uint32_t> n_tops_;    // [prompt]: fewer where the vocabulary has fewer
  std::vector<TokenLogprob> tops_;  // [prompt × top]
};

// The log-probability of `token` under softmax(logits) and the `top` likeliest, the likeliest first, lower ids first
// among equals. Logits that are not numbers count as -inf.
ScoredToken score_token(std::span<const float> logits, Token token, size_t top);

}  // namespace ingot
