// Carries out a load plan.
#pragma once

#include <deque>
#include <functional>

#include "cli/load/load_client.h"

namespace ingot {

struct LoadRun {
  std::deque<LoadRecord> records;  // in the order they were sent
  double seconds = 0;              // until the last answer ended
  double cpu_seconds = 0;          // of this process meanwhile
};

struct LoadProgress {
  double at = 0;
  size_t ended = 0, ok = 0, open = 0;
  int64_t pieces = 0;
};

// Sends `warm_up` requests one after the other before the clock starts; one that fails other than by being rejected
// throws Error, so that a wrong address or model is told at once. Then the plan. `on_progress` is called a few times a
// second. Throws Interrupted.
LoadRun run_load(LoadClient& client, const LoadPlan& plan, int warm_up,
                 const std::function<void(const LoadProgress&)>& on_progress);

}  // namespace ingot
