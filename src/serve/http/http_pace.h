// How fast bytes come from a client or are taken by it: who is the slowest, and who is too slow. Only the io thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace ingot {

class HttpPace {
 public:
  using Clock = std::chrono::steady_clock;

  // Bytes a second that count for whoever has not shown yet what it is. A body's first bytes show it; a reader has its
  // answer in whole before it can take any of it.
  static constexpr double kBodyCredit = 256 << 10;
  static constexpr double kReaderCredit = 16 << 20;

  // Something is to be moved from now on.
  void begin(Clock::time_point now, double credit) {
    rate_ = credit;
    at_ = began_ = window_ = now;
    moved_ = 0;
  }
  void moved(size_t bytes, Clock::time_point now) {
    rate_ = rate_at(now) + static_cast<double>(bytes) / kMemory;
    at_ = now;
    moved_ += bytes;
  }

  // How long so many bytes would take at the rate of the last seconds: of all who hold memory, the one with the most is
  // the slowest. What it moved long ago does not help it.
  double seconds_for(size_t held, Clock::time_point now) const {
    return static_cast<double>(held) / std::max(rate_at(now), 1.0);
  }
  double age(Clock::time_point now) const { return seconds(now - began_); }

  // A window of `window_seconds` has passed. False: fewer than `rate` bytes a second were moved in it. Otherwise the
  // next one begins.
  bool keeps(double window_seconds, size_t rate, Clock::time_point now) {
    const double passed = seconds(now - window_);
    if (passed < window_seconds) return true;
    const double least = std::max(1.0, static_cast<double>(rate) * window_seconds);
    if (static_cast<double>(moved_) < least) return false;
    window_ = now;
    moved_ = 0;
    return true;
  }
  // Until the window's end.
  double window_left(double window_seconds, Clock::time_point now) const {
    return std::max(0.0, window_seconds - seconds(now - window_));
  }

 private:
  static constexpr double kMemory = 1;  // seconds that the rate remembers
  static double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }
  double rate_at(Clock::time_point now) const { return rate_ * std::exp(-seconds(now - at_) / kMemory); }

  double rate_ = 0;
  Clock::time_point at_, began_, window_;
  size_t moved_ = 0;  // in this window
};

}  // namespace ingot
