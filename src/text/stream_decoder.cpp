#include "text/stream_decoder.h"

#include "base/utf8.h"

namespace ingot {

namespace {

// Whether text[pos, end) is the beginning of a character that more bytes may complete.
bool may_continue(std::string_view text, size_t pos) {
  const auto first = static_cast<unsigned char>(text[pos]);
  return first >= 0xC2 && first <= 0xF4 && pos + utf8_invalid_length(text, pos) == text.size();
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, StreamDecoderOptions options)
    : tokenizer_(tokenizer), options_(options) {
  if (options.continues) state_ = {.first = false, .strip_left = 0};
}

std::string StreamDecoder::push(Token token) {
  tokenizer_.append_token(token, options_.show_special, state_, pending_);
  size_t whole = 0;
  while (whole < pending_.size()) {
    uint32_t cp = 0;
    const size_t length = utf8_decode(pending_, whole, cp);
    if (length > 0) {
      whole += length;
    } else if (may_continue(pending_, whole)) {
      break;
    } else {
      whole += utf8_invalid_length(pending_, whole);
    }
  }
  const std::string_view ready = std::string_view(pending_).substr(0, whole);
  std::string text = utf8_valid(ready) ? std::string(ready) : utf8_replace_invalid(ready);
  pending_.erase(0, whole);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = utf8_replace_invalid(pending_);
  pending_.clear();
  return text;
}

}  // namespace ingot
