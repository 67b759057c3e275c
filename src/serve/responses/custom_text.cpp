#include "serve/responses/custom_text.h"

#include <utility>

#include "serve/answer/calls/json_stream.h"

namespace ingot {
namespace {

constexpr std::string_view kHead = "{\"input\":\"";

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// "\uD83D" waits for the other half.
bool is_first_half(std::string_view escape) {
  return escape.size() == 6 && (escape[2] == 'd' || escape[2] == 'D') &&
         (escape[3] == '8' || escape[3] == '9' || (escape[3] | 0x20) == 'a' || (escape[3] | 0x20) == 'b');
}

std::string decoded(const std::string& escapes) {
  return decode_json_string("\"" + escapes + "\"").value_or("\xEF\xBF\xBD");
}

}  // namespace

std::string CustomText::push(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    switch (at_) {
      case At::kHead:
        head_ += c;
        if (is_json_space(c)) break;
        if (c == kHead[matched_]) {
          if (++matched_ == kHead.size()) at_ = At::kText;
        } else {
          at_ = At::kOther;
          out += std::exchange(head_, {});
        }
        break;
      case At::kText:
        text_byte(c, out);
        break;
      case At::kOther:
        out += c;
        break;
      case At::kAfter:
        break;
    }
  }
  return out;
}

void CustomText::text_byte(char c, std::string& out) {
  if (escape_.empty()) {
    if (c == '\\') {
      escape_ = c;
      return;
    }
    if (!pending_.empty()) out += decoded(std::exchange(pending_, {}));
    if (c == '"') {
      at_ = At::kAfter;
    } else {
      out += c;
    }
    return;
  }
  escape_ += c;
  const bool unicode = escape_[1] == 'u';
  if (unicode && escape_.size() < 6 && (escape_.size() == 2 || is_hex(c))) return;
  const std::string escape = std::exchange(escape_, {}), before = std::exchange(pending_, {});
  if (before.empty() && is_first_half(escape)) {
    pending_ = escape;
  } else if (const auto both = decode_json_string("\"" + before + escape + "\"")) {
    out += *both;
  } else {
    if (!before.empty()) out += decoded(before);
    out += decoded(escape);
  }
}

std::string CustomText::finish() {
  if (at_ == At::kHead) return std::exchange(head_, {});
  return pending_.empty() ? std::string() : decoded(std::exchange(pending_, {}));
}

}  // namespace ingot
