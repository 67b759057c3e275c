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
  explicit StreamDecoder(const Tokenizer& tokenizer, StreamDecoderOptions options = {})
      : tokenizer_(tokenizer), options_(options), state_{.continues = options.continues} {}

  // The text that this token settles: valid UTF-8, perhaps empty, never a part of a character. Throws Error on an id
  // that is no token.
  std::string push(Token token) {
    std::string text;
    tokenizer_.append_token(token, options_.show_special, state_, text);
    return text;
  }
  // What is left when no token follows: what the decoder held back, U+FFFD for the beginning of a character.
  std::string finish() {
    std::string text;
    tokenizer_.finish_text(state_, text);
    return text;
  }

 private:
  const Tokenizer& tokenizer_;
  const StreamDecoderOptions options_;
  Decoder::State state_;
};

}  // namespace ingot
