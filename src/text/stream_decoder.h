// Tokens to text one by one: what push() and finish() give, joined, is what Tokenizer::decode gives for all tokens.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace ingot {

struct StreamDecoderOptions {
  bool show_special = false;
  // The tokens continue a text that was shown already, so that a leading space belongs to it. decode() never does.
  bool continues = false;
};

// `tokenizer` must outlive it. One thread.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, StreamDecoderOptions options = {});

  // The text that this token completes: valid UTF-8, perhaps empty, never a part of a character. Bytes that cannot
  // become a character are U+FFFD, one for each maximal subpart. Throws Error on an id that is no token.
  std::string push(Token token);
  // What is left when no token follows: U+FFFD for the beginning of a character.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  const StreamDecoderOptions options_;
  Decoder::State state_;
  std::string pending_;  // the beginning of a character, at most three bytes between calls
};

}  // namespace ingot
