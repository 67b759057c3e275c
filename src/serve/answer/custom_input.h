// The text that a call of a custom tool carries, taken while it comes from the JSON of its one argument.
#pragma once

#include <string>
#include <string_view>

namespace ingot {

class CustomInput {
 public:
  // The next bytes of {"input": "…"}; returns what they add to the text, whole characters. However the bytes are cut,
  // the texts joined are the same; half a pair of surrogates is U+FFFD.
  std::string push(std::string_view json);

 private:
  enum class At : unsigned char { kKey, kInKey, kValue, kText, kAfter };
  void text_byte(char c, std::string& out);
  void flush_half(std::string& out);

  At at_ = At::kKey;
  bool escaped_ = false;  // within the key
  std::string escape_;    // that is being read
  std::string half_;      // the escape of a character's first half
};

}  // namespace ingot
