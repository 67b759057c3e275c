// One line on a terminal, while models are run and rounded: what is done, the share of it, and the time left by the
// speed so far. Silent where stderr is no terminal.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace ingot {

class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { end(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `done` of it, 0…1. Drawn five times a second at most; another stage begins its time anew.
  void show(std::string_view stage, double done);
  // Wipes the line.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  // Speed counts from the first share that is drawn: what a killed run had made came before.
  struct Start {
    Clock::time_point time;
    double done = 0;
  };

  std::string stage_;
  std::optional<Start> start_;
  Clock::time_point drawn_ = Clock::now();
  bool shown_ = false;
};

}  // namespace ingot
