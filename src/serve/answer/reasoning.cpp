#include "serve/answer/reasoning.h"

#include <utility>

#include "serve/answer/calls/json_stream.h"
#include "serve/answer/held_text.h"

namespace ingot {

void Reasoning::push(std::string_view bytes, std::string& reasoning, std::string& text) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (at_ == At::kText) {
      text += bytes.substr(i);
      return;
    }
    feed(bytes[i], reasoning, text);
  }
}

void Reasoning::feed(char c, std::string& reasoning, std::string& text) {
  switch (at_) {
    case At::kStart:
    case At::kOpened:
      return first(c, reasoning, text);
    case At::kInside:
      return inside(c, reasoning);
    case At::kAfter:
      if (is_json_space(c)) return;
      at_ = At::kText;
      [[fallthrough]];
    case At::kText:
      text += c;
  }
}

// Before anything but white space was seen.
void Reasoning::first(char c, std::string& reasoning, std::string& text) {
  if (held_.empty() && is_json_space(c) && space_.size() < kMaxHeldBytes) {
    space_ += c;
    return;
  }
  held_ += c;
  if (marks_.open.starts_with(held_)) {
    if (held_.size() < marks_.open.size()) return;
    held_.clear();
    space_.clear();
    at_ = At::kInside;
    return;
  }
  const std::string seen = std::exchange(space_, {}) + std::exchange(held_, {});
  if (at_ == At::kOpened) {
    at_ = At::kInside;
    for (const char h : seen) inside(h, reasoning);
  } else {
    at_ = At::kText;
    text += seen;
  }
}

void Reasoning::inside(char c, std::string& reasoning) {
  held_ += c;
  while (!held_.empty() && !marks_.close.starts_with(held_)) {
    const char first = held_.front();
    held_.erase(0, 1);
    thought(first, reasoning);
  }
  if (held_ != marks_.close) return;
  held_.clear();
  space_.clear();
  at_ = At::kAfter;
}

void Reasoning::thought(char c, std::string& reasoning) {
  if (is_json_space(c)) {
    if (begun_) space_ += c;
    if (space_.size() > kMaxHeldBytes) begin(reasoning);
    return;
  }
  begin(reasoning);
  reasoning += c;
}

// Something that is no white space comes.
void Reasoning::begin(std::string& reasoning) {
  begun_ = true;
  reasoning += std::exchange(space_, {});
}

void Reasoning::finish(std::string& reasoning, std::string& text) {
  if (at_ == At::kStart) {
    text += std::exchange(space_, {});
    text += std::exchange(held_, {});
  } else if (at_ == At::kOpened) {
    reasoning += std::exchange(held_, {});
  } else if (at_ == At::kInside) {
    if (!held_.empty()) begin(reasoning);
    reasoning += std::exchange(held_, {});
  }
}

}  // namespace ingot
