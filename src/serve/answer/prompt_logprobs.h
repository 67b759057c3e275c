// The log-probabilities of a prompt's own tokens, from the logits of its rows: echo with logprobs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "serve/answer/choice_text.h"

namespace ingot {

// Filled by the thread that runs the model, through Request::on_logits with logits_from 0; read by others after the
// prompt's first event.
class PromptLogprobs {
 public:
  // `top`: how many of the likeliest are kept at each token.
  PromptLogprobs(std::vector<Token> prompt, int top);

  // The logits of the row at `position`: they predict the token after it.
  void take(int position, std::span<const float> logits);

  // All tokens of the prompt with their places in `text`, which they spell; the first has no score.
  std::vector<ScoredToken> scores(const Tokenizer& tokenizer, std::string_view text) const;

 private:
  const std::vector<Token> prompt_;
  const size_t top_;
  std::vector<ScoredToken> scores_;  // [prompt]
};

// The log-probability of `token` under softmax(logits) and the `top` likeliest, the likeliest first, lower ids first
// among equals. Logits that are not numbers count as -inf.
ScoredToken score_token(std::span<const float> logits, Token token, size_t top);

}  // namespace ingot
