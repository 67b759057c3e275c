#include "serve/answer/reasoning.h"

#include <utility>

#include "serve/answer/held_text.h"
#include "serve/answer/json_stream.h"

namespace ingot {
namespace {

// '<' begins both and occurs in neither again: after a mismatch the match can only begin anew at the byte itself.
constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";

}  // namespace

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
  if (matched_ == 0 && is_json_space(c) && space_.size() < kMaxHeldBytes) {
    space_ += c;
    return;
  }
  if (c == kOpen[matched_]) {
    if (++matched_ < kOpen.size()) return;
    matched_ = 0;
    space_.clear();
    at_ = At::kInside;
    return;
  }
  const std::string held = std::exchange(space_, {}) + std::string(kOpen.substr(0, std::exchange(matched_, 0)));
  if (at_ == At::kOpened) {
    at_ = At::kInside;
    for (const char h : held) inside(h, reasoning);
    inside(c, reasoning);
  } else {
    at_ = At::kText;
    text += held;
    text += c;
  }
}

void Reasoning::inside(char c, std::string& reasoning) {
  if (c == kClose[matched_]) {
    if (++matched_ < kClose.size()) return;
    matched_ = 0;
    space_.clear();
    at_ = At::kAfter;
    return;
  }
  if (matched_ > 0) {
    begin(reasoning);
    reasoning += kClose.substr(0, std::exchange(matched_, 0));
    return inside(c, reasoning);
  }
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
    text += kOpen.substr(0, std::exchange(matched_, 0));
  } else if (at_ == At::kOpened) {
    reasoning += kOpen.substr(0, std::exchange(matched_, 0));
  } else if (at_ == At::kInside) {
    if (matched_ > 0) begin(reasoning);
    reasoning += kClose.substr(0, std::exchange(matched_, 0));
  }
}

}  // namespace ingot
