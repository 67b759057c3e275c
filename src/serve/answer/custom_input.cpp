#include "serve/answer/custom_input.h"

#include <fmt/format.h>

#include <utility>

#include "serve/answer/calls/json_stream.h"

namespace ingot {
namespace {

constexpr const char* kNoCharacter = "\xEF\xBF\xBD";

// "\uD83D": with the other half behind it one character.
bool is_first_half(std::string_view escape) {
  return escape.size() == 6 && (escape[2] == 'd' || escape[2] == 'D') &&
         std::string_view("89abAB").find(escape[3]) != std::string_view::npos;
}

}  // namespace

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
    flush_half(out);
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
  const std::string escape = std::exchange(escape_, {});
  if (!half_.empty()) {
    const auto both = decode_json_string(fmt::format("\"{}{}\"", half_, escape));
    if (both) {
      half_.clear();
      out += *both;
      return;
    }
    flush_half(out);
  }
  if (is_first_half(escape)) {
    half_ = escape;
  } else {
    out += decode_json_string(fmt::format("\"{}\"", escape)).value_or(kNoCharacter);
  }
}

// It was not the first of two.
void CustomInput::flush_half(std::string& out) {
  if (!std::exchange(half_, {}).empty()) out += kNoCharacter;
}

}  // namespace ingot
