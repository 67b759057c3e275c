#include "engine/stats.h"

#include <algorithm>

namespace ingot {

void EngineStats::add(const EngineStats& other) {
  constexpr int64_t EngineStats::*kCounts[] = {
      &EngineStats::steps,         &EngineStats::failed_steps,  &EngineStats::rows,         &EngineStats::ahead,
      &EngineStats::orphans,       &EngineStats::tokens,        &EngineStats::drafted,      &EngineStats::accepted,
      &EngineStats::prompt_tokens, &EngineStats::reused_tokens, &EngineStats::put_off,      &EngineStats::preempted,
      &EngineStats::evicted,       &EngineStats::submitted,     &EngineStats::refused,      &EngineStats::busy,
      &EngineStats::late,          &EngineStats::taken,         &EngineStats::finished,     &EngineStats::cancelled,
      &EngineStats::errors,        &EngineStats::expired,       &EngineStats::timeouts,     &EngineStats::stopped,
      &EngineStats::pages,         &EngineStats::free_pages,    &EngineStats::cached_pages, &EngineStats::kv_bytes};
  for (const auto count : kCounts) this->*count += other.*count;
  busy_seconds += other.busy_seconds;
  step_seconds = std::max(step_seconds, other.step_seconds);
  own_seconds = std::max(own_seconds, other.own_seconds);
  running += other.running;
  waiting += other.waiting;
  experts.layers += other.experts.layers;
  experts.touched += other.experts.touched;
  experts.busiest += other.experts.busiest;
}

}  // namespace ingot
