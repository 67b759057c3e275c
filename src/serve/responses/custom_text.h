// The text that a call of a custom tool has for input, taken out of {"input": "…"} while that is being written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ingot {

// However the arguments are cut into pushes, the pieces joined are the same. Arguments of another form come out as they
// are.
class CustomText {
 public:
  // The next bytes of the arguments' JSON; gives what they add to the text, whole characters.
  std::string push(std::string_view bytes);
  // No more come: what was held back.
  std::string finish();

 private:
  enum class At : unsigned char { kHead, kText, kAfter, kOther };

  void text_byte(char c, std::string& out);

  At at_ = At::kHead;
  size_t matched_ = 0;   // bytes of {"input":" that came
  std::string head_;     // the same with its white space
  std::string escape_;   // an escape that is not whole: "\u00"
  std::string pending_;  // the first half of a pair of surrogates, as an escape
};

}  // namespace ingot
