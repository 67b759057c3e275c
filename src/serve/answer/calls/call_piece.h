// A fixed text of a form of calls, met byte by byte; and what the readers of calls share.
#pragma once

#include <string>
#include <string_view>

#include "grammar/call_form.h"
#include "serve/answer/calls/json_stream.h"

namespace ingot {

// Of a tool's name, and of most ids.
inline bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

// White space in front of the text and where it has some itself is any or none.
class PieceMatch {
 public:
  PieceMatch() = default;
  explicit PieceMatch(std::string_view text) : text_(without_space(text)), alive_(!text_.empty()) {}

  // kDone: this byte is the text's last. kBad, now and from then on: the text does not stand here.
  JsonStep feed(char c) {
    if (!alive_) return JsonStep::kBad;
    if (is_json_space(c) && (at_ == 0 || is_json_space(text_[at_]))) return JsonStep::kMore;
    while (is_json_space(text_[at_])) ++at_;
    if (c != text_[at_]) {
      alive_ = false;
      return JsonStep::kBad;
    }
    ++at_;
    return at_ == text_.size() ? JsonStep::kDone : JsonStep::kMore;
  }
  bool alive() const { return alive_; }

 private:
  std::string_view text_;
  size_t at_ = 0;
  bool alive_ = false;
};

// Appends the text as it stands between the quotes of a JSON string.
void append_json_text(std::string_view text, std::string& out);

}  // namespace ingot
