// One choice's tokens to text: whole characters, up to a stop string, with the log-probabilities that were asked for.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "serve/api/generation.h"
#include "text/decode/stop_strings.h"
#include "text/decode/stream_decoder.h"

namespace ingot {

// A token as logprobs tell of it.
struct ScoredToken {
  Token token = -1;
  bool scored = true;  // false: the first token of a prompt, which nothing predicts
  float logprob = 0;
  std::vector<TokenLogprob> top = {};
  size_t offset = 0;  // characters of the text before it
};

// Text that may be sent, and the tokens that it completes.
struct TextPiece {
  std::string text;
  std::vector<ScoredToken> scores;  // where logprobs were asked for
};

// However the tokens are cut into pieces, the pieces, joined, are the same. One thread at a time. Stop strings of a
// text that is searched for reasoning or calls are not looked at here: visible_stops.h.
class ChoiceText {
 public:
  // Both must outlive it. `offset`: characters that stand before the choice's text.
  ChoiceText(const Tokenizer& tokenizer, const Generation& generation, size_t offset = 0);

  // The next token, which is none of the end tokens.
  TextPiece push(const SampleResult& sample);
  // When no token follows: what was held back.
  TextPiece finish();

  // The stop string that ended the text; no token is of any use after it.
  const std::optional<std::string>& matched() const { return stops_.matched(); }
  bool stopped() const { return stops_.stopped(); }

 private:
  struct Waiting {
    ScoredToken token;
    size_t begin, end;  // bytes of the whole text that the token made
  };
  TextPiece take(std::string text, bool all);

  const Tokenizer& tokenizer_;
  const bool scored_;
  const std::vector<MarkToken> marks_;  // control tokens that are text here
  StreamDecoder decoder_;
  StopStrings stops_;
  std::deque<Waiting> waiting_;  // tokens whose text was not given out yet
  size_t decoded_ = 0;           // bytes
  size_t given_ = 0;             // of them
  size_t characters_;            // of the decoded ones
};

// Characters of a text that is valid UTF-8.
size_t count_characters(std::string_view text);

}  // namespace ingot
