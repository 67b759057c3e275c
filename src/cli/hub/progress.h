// A progress bar on stderr: only on a terminal, and only once the work has taken over a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ingot {

// "1.2 GB": powers of 1000, three digits at most.
std::string format_bytes(uint64_t bytes);

// One line, redrawn in place at most ten times a second and wiped by finish() or the destructor.
// Single-threaded. Costs a clock read for each update.
class Progress {
 public:
  // `total` 0: not known, shows the amount only.
  Progress(std::string label, uint64_t total);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `skipped` of the bytes done were there before and do not count for the speed.
  void update(uint64_t done, uint64_t skipped = 0);
  void finish();

  // The line's text for a terminal of `columns`; what update() draws. `seconds` since the start.
  std::string line(uint64_t done, uint64_t skipped, double seconds, int columns) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  uint64_t total_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_drawn_ = start_;
};

}  // namespace ingot
