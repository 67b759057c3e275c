#include "comm/rank_meter.h"

namespace ingot {

void RankCounts::add(const RankCounts& other) {
  steps += other.steps;
  step_ns += other.step_ns;
  wait_ns += other.wait_ns;
  collective_ns += other.collective_ns;
  for (size_t i = 0; i < kCommKinds; ++i) bytes[i] += other.bytes[i];
}

RankCounts RankMeter::counts() const {
  RankCounts now{.steps = steps_.load(std::memory_order_relaxed),
                 .step_ns = step_ns_.load(std::memory_order_relaxed),
                 .wait_ns = wait_ns_.load(std::memory_order_relaxed),
                 .collective_ns = collective_ns_.load(std::memory_order_relaxed)};
  for (size_t i = 0; i < kCommKinds; ++i) now.bytes[i] = bytes_[i].load(std::memory_order_relaxed);
  return now;
}

}  // namespace ingot
