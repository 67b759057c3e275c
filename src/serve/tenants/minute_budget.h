// So many a minute: what was used comes back steadily, and no more than a minute's worth is ever saved.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ingot {

// `now` is in seconds of any clock that never goes back. One thread at a time.
class MinuteBudget {
 public:
  // 0: no limit. Another limit than before begins full.
  void set(int64_t per_minute, double now) {
    if (per_minute == per_minute_) return;
    per_minute_ = per_minute;
    balance_ = static_cast<double>(per_minute);
    updated_ = now;
  }
  int64_t per_minute() const { return per_minute_; }

  // The balance may go below nothing: what an answer costs is known when it has been made.
  void take(double n, double now) {
    if (per_minute_ == 0) return;
    balance_ = balance(now) - n;
    updated_ = now;
  }
  int64_t left(double now) const { return std::max<int64_t>(0, static_cast<int64_t>(balance(now))); }
  // Seconds until `n` are there; 0: they are, or there is no limit.
  double seconds_until(double n, double now) const {
    return per_minute_ == 0 ? 0 : std::max(0.0, (n - balance(now)) / rate());
  }
  // Seconds until it is full.
  double seconds_until_full(double now) const { return seconds_until(static_cast<double>(per_minute_), now); }

 private:
  double rate() const { return static_cast<double>(per_minute_) / 60; }
  double balance(double now) const {
    return std::min(static_cast<double>(per_minute_), balance_ + (now - updated_) * rate());
  }

  int64_t per_minute_ = 0;
  double balance_ = 0, updated_ = 0;
};

}  // namespace ingot
