// Tells a model's reasoning from its answer: between two marks at the beginning, and once only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ingot {

// What encloses a model's reasoning, as its template writes it (taught_form.h).
struct ReasoningMarks {
  std::string open = "<think>", close = "</think>";
  bool channels = false;  // an answer is a list of messages, each with a header: channels.h
  // With channels: the header of the message that is the answer, for an answer that is held to something. Prompts end
  // with `header`, the beginning of any of them.
  std::string lead = {}, header = {};

  bool operator==(const ReasoningMarks&) const = default;
};

// However the text is cut into pushes, the pieces joined are the same. White space at both ends of the reasoning and
// before the answer that follows it is dropped; without reasoning every byte comes out as text.
class Reasoning {
 public:
  // opened: the prompt ended with the mark that begins it. `marks` outlive it.
  Reasoning(const ReasoningMarks& marks, bool opened) : marks_(marks), at_(opened ? At::kOpened : At::kStart) {}

  // Appends what is settled.
  void push(std::string_view bytes, std::string& reasoning, std::string& text);
  void finish(std::string& reasoning, std::string& text);

 private:
  enum class At : unsigned char { kStart, kOpened, kInside, kAfter, kText };

  void feed(char c, std::string& reasoning, std::string& text);
  void first(char c, std::string& reasoning, std::string& text);
  void inside(char c, std::string& reasoning);
  void thought(char c, std::string& reasoning);
  void begin(std::string& reasoning);

  const ReasoningMarks& marks_;
  At at_;
  std::string space_;   // white space that may turn out to be at an end
  std::string held_;    // the beginning of the mark that is being read
  bool begun_ = false;  // some reasoning was given out
};

}  // namespace ingot
