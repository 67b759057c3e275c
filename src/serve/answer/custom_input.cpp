#include "serve/answer/custom_input.h"

#include <fmt/format.h>

#include <utility>

#include "serve/answer/calls/json_stream.h"

namespace ingot {

std::string CustomInput::push(std::string_view json) {
  std::string out;
  for (const char c : json) {
    switch (at_) {
      case At::kKey:
        if (c == '"') at_ = At::kInKey;
        break;
      case At::kInKey:
        if (!escaped_ && c == '"') at_ = At::kValue;
        escaped_ = !escaped_ && c == '\\';
        break;
      case At::kValue:
        if (c == '"') at_ = At::kText;
        break;
      case At::kText:
        text_byte(c, out);
        break;
      case At::kAfter:
        return out;
    }
  }
  return out;
}

void CustomInput::text_byte(char c, std::string& out) {
  if (escape_.empty() && c != '\\') {
    if (c == '"') {
      at_ = At::kAfter;
    } else {
      out += c;
    }
    return;
  }
  escape_ += c;
  const bool by_number = escape_.size() > 1 && escape_[1] == 'u';
  if (escape_.size() < (by_number ? 6u : 2u)) return;
  const bool first_half = by_number && (escape_[2] == 'd' || escape_[2] == 'D') &&
                          std::string_view("89abAB").find(escape_[3]) != std::string_view::npos;
  if (first_half && escape_.size() < 12) return;  // the other half of the character
  if (const auto text = decode_json_string(fmt::format("\"{}\"", std::exchange(escape_, {})))) out += *text;
}

}  // namespace ingot
