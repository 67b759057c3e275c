// An answer that is a list of messages, each with a header that says what it is, as gpt-oss (harmony) and Muse Glimmer
// write it: tells reasoning from text, and hands calls of tools on in the form that is read (grammar/forms/).
//
//   <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…
//   to=self<|message|>…<|eom|><|start|>assistant to=user<|message|>…
#pragma once

#include <string>
#include <string_view>

namespace ingot {

// However the text is cut into pushes, the pieces joined are the same. No header and no mark is part of what comes out,
// but for those of calls.
class Channels {
 public:
  // The prompt ended with the beginning of a header, or (opened) with the whole one of a reasoning message. `calls`: a
  // message to a tool is handed on with its header; else its content is text.
  Channels(bool opened, bool calls) : at_(opened ? At::kReasoning : At::kHeader), calls_(calls) {}

  // Appends what is settled.
  void push(std::string_view bytes, std::string& reasoning, std::string& text);
  void finish(std::string& reasoning, std::string& text);

 private:
  enum class At : unsigned char { kHeader, kReasoning, kText, kBetween };

  void feed(char c, std::string& reasoning, std::string& text);
  void give(std::string_view bytes, std::string& reasoning, std::string& text);
  void take_mark(std::string_view mark, std::string& text);
  void end_header(std::string& text);

  At at_;
  const bool calls_;
  std::string held_;    // the beginning of a mark
  std::string header_;  // that is being read
};

}  // namespace ingot
