#include "serve/answer/channels.h"

#include <algorithm>
#include <array>
#include <utility>

#include "grammar/call_form.h"
#include "serve/answer/calls/call_piece.h"

namespace ingot {
namespace {

constexpr std::string_view kStart = "<|start|>", kMessage = "<|message|>";
// What ends a message, or stands in its header. Those that end the whole answer are end tokens, and seldom seen here.
constexpr std::array<std::string_view, 9> kMarks = {kStart,       kMessage,   "<|channel|>", "<|constrain|>", "<|end|>",
                                                    "<|return|>", "<|call|>", "<|eom|>",     "<|eot|>"};
constexpr size_t kMaxHeader = 512;  // longer is none: it is text

bool ends_message(std::string_view mark) {
  return mark == "<|end|>" || mark == "<|return|>" || mark == "<|call|>" || mark == "<|eom|>" || mark == "<|eot|>";
}

// The receiver that a header names: "functions.f" of "commentary to=functions.f <|constrain|>json".
std::string_view receiver(std::string_view header) {
  const size_t at = header.find("to=");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + 3);
  const auto end = std::ranges::find_if_not(rest, is_name_byte);
  return rest.substr(0, static_cast<size_t>(end - rest.begin()));
}

}  // namespace

void Channels::push(std::string_view bytes, std::string& reasoning, std::string& text) {
  for (const char c : bytes) feed(c, reasoning, text);
}

void Channels::feed(char c, std::string& reasoning, std::string& text) {
  held_ += c;
  const auto begins = [this](std::string_view mark) { return mark.starts_with(held_); };
  while (!held_.empty() && std::ranges::none_of(kMarks, begins)) {
    give(held_.substr(0, 1), reasoning, text);
    held_.erase(0, 1);
  }
  if (std::ranges::find(kMarks, held_) != kMarks.end()) take_mark(std::exchange(held_, {}), text);
}

void Channels::give(std::string_view bytes, std::string& reasoning, std::string& text) {
  switch (at_) {
    case At::kHeader:
      header_ += bytes;
      if (header_.size() <= kMaxHeader) return;
      at_ = At::kText;
      text += std::exchange(header_, {});
      return;
    case At::kReasoning:
      reasoning += bytes;
      return;
    case At::kText:
      text += bytes;
      return;
    case At::kBetween:
      return;
  }
}

void Channels::take_mark(std::string_view mark, std::string& text) {
  if (mark == kStart) {
    at_ = At::kHeader;
    header_.clear();
  } else if (ends_message(mark)) {
    at_ = At::kBetween;
  } else if (at_ == At::kHeader && mark == kMessage) {
    end_header(text);
  } else if (mark == "<|channel|>" && at_ != At::kHeader) {  // a message without its beginning
    at_ = At::kHeader;
    header_ = mark;
  } else if (at_ == At::kHeader) {
    header_ += mark;
  }
}

void Channels::end_header(std::string& text) {
  const std::string header = std::exchange(header_, {});
  const std::string_view to = receiver(header);
  const bool harmony = header.find("<|channel|>") != std::string::npos;
  const bool call = harmony ? to.starts_with("functions.") : !to.empty() && to != "self" && to != "user";
  at_ = At::kText;
  if (call && calls_) {
    text += harmony ? "<|channel|>commentary to=" : "<|start|>assistant to=";
    text += to;
    if (harmony) text += " <|constrain|>json";
    text += kMessage;
  } else if (!call && (to == "self" || header.find("<|channel|>analysis") != std::string::npos)) {
    at_ = At::kReasoning;
  }
}

void Channels::finish(std::string& reasoning, std::string& text) {
  // An answer that has no header at all is text.
  if (at_ == At::kHeader) text += std::exchange(header_, {});
  give(std::exchange(held_, {}), reasoning, text);
}

}  // namespace ingot
