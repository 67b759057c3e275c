#include "text/decode/stop_strings.h"

#include <algorithm>
#include <utility>

namespace ingot {

StopStrings::StopStrings(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    Stop stop{std::move(text), {}, 0};
    stop.fallback.assign(stop.text.size() + 1, 0);
    for (size_t i = 1, n = 0; i < stop.text.size(); i++) {
      while (n > 0 && stop.text[i] != stop.text[n]) n = stop.fallback[n];
      if (stop.text[i] == stop.text[n]) n++;
      stop.fallback[i + 1] = n;
    }
    stops_.push_back(std::move(stop));
  }
}

std::string StopStrings::push(std::string_view text) {
  if (stopped()) return {};
  for (const char c : text) {
    held_.push_back(c);
    const Stop* found = nullptr;
    for (Stop& stop : stops_) {
      while (stop.matched > 0 && stop.text[stop.matched] != c) stop.matched = stop.fallback[stop.matched];
      if (stop.text[stop.matched] == c) stop.matched++;
      if (stop.matched == stop.text.size() && (found == nullptr || stop.text.size() > found->text.size())) {
        found = &stop;
      }
    }
    if (found != nullptr) {
      matched_ = found->text;
      std::string before = held_.substr(0, held_.size() - found->text.size());
      held_.clear();
      return before;
    }
  }
  size_t keep = 0;
  for (const Stop& stop : stops_) keep = std::max(keep, stop.matched);
  std::string ready = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return ready;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace ingot
