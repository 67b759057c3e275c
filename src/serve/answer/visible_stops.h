// Stop strings in what a reader sees of an answer: neither reasoning nor calls of tools are searched for them, and none
// goes across those.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/answer/calls/tool_calls.h"
#include "text/decode/stop_strings.h"

namespace ingot {

class VisibleStops {
 public:
  explicit VisibleStops(std::vector<std::string> stops) : given_(std::move(stops)), stops_(given_) {}

  // Leaves of the next parts of an answer what may be given out: all before the stop string that is completed first,
  // without text that may become one; `last`: no part follows.
  void filter(std::vector<AnswerPart>& parts, bool last) {
    std::vector<AnswerPart> out;
    for (AnswerPart& part : parts) {
      if (stopped()) break;
      if (part.kind == AnswerPart::Kind::kText) {
        append_part(out, {.kind = part.kind, .text = stops_.push(part.text), .id = {}});
        continue;
      }
      release(out);
      append_part(out, std::move(part));
    }
    if (last && !stopped()) release(out);
    parts = std::move(out);
  }

  bool stopped() const { return stops_.stopped(); }
  const std::optional<std::string>& matched() const { return stops_.matched(); }

 private:
  void release(std::vector<AnswerPart>& out) {
    std::string text = stops_.finish();
    if (text.empty()) return;
    append_part(out, {.kind = AnswerPart::Kind::kText, .text = std::move(text), .id = {}});
    stops_ = StopStrings(given_);
  }

  std::vector<std::string> given_;
  StopStrings stops_;
};

}  // namespace ingot
