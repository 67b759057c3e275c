// What a good answer keeps to: of what is served, only that is goodput.
#pragma once

#include <string>

namespace ingot {

// In milliseconds; 0: not asked for.
struct Slo {
  double ttft_ms = 0;
  double itl_ms = 0;  // the mean gap between the pieces of one answer
  double e2e_ms = 0;

  bool any() const { return ttft_ms > 0 || itl_ms > 0 || e2e_ms > 0; }
  // Of an answer with these times.
  bool kept(double ttft, double itl, double e2e) const {
    const auto within = [](double limit, double ms) { return limit == 0 || ms <= limit; };
    return within(ttft_ms, ttft) && within(itl_ms, itl) && within(e2e_ms, e2e);
  }
};

// "ttft=500,itl=50,e2e=10s": milliseconds, or seconds with an s. Throws Error that says what is wrong.
Slo parse_slo(const std::string& text);

}  // namespace ingot
