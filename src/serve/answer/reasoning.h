// Tells a model's reasoning from its answer: <think>…</think> at the beginning, and once only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ingot {

// However the text is cut into pushes, the pieces joined are the same. White space at both ends of the reasoning and
// before the answer that follows it is dropped; without reasoning every byte comes out as text.
class Reasoning {
 public:
  // opened: the prompt ended with <think>.
  explicit Reasoning(bool opened) : at_(opened ? At::kOpened : At::kStart) {}

  // Appends what is settled.
  void push(std::string_view bytes, std::string& reasoning, std::string& text);
  void finish(std::string& reasoning, std::string& text);

 private:
  enum class At : unsigned char { kStart, kOpened, kInside, kAfter, kText };

  void feed(char c, std::string& reasoning, std::string& text);
  void first(char c, std::string& reasoning, std::string& text);
  void inside(char c, std::string& reasoning);
  void begin(std::string& reasoning);

  At at_;
  std::string space_;   // white space that may turn out to be at an end
  size_t matched_ = 0;  // bytes of the mark that is being read
  bool begun_ = false;  // some reasoning was given out
};

}  // namespace ingot
