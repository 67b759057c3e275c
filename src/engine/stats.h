// What the engine tells of itself in numbers.
#pragma once

#include <cstdint>

#include "graph/expert_use.h"

namespace ingot {

// One step that ran.
struct StepFacts {
  double seconds = 0;  // of the model
  int rows = 0;
  int prompt_rows = 0;  // of them, rows of prompts
  int seqs = 0;
};

// Counted since the start, but for the last group.
struct EngineStats {
  int64_t steps = 0, failed_steps = 0;
  int64_t rows = 0;           // computed
  int64_t ahead = 0;          // steps that were launched before the one in front had ended
  int64_t orphans = 0;        // seqs of such steps that ended meanwhile: computed for nothing
  int64_t tokens = 0;         // made
  int64_t prompt_tokens = 0;  // of requests that began
  int64_t reused_tokens = 0;  // of them, found in the prefix cache
  int64_t drafted = 0, accepted = 0;
  int64_t put_off = 0;  // draws whose mask was late: they were repeated in the next step
  int64_t preempted = 0, evicted = 0;
  int64_t submitted = 0, refused = 0, busy = 0;
  int64_t late = 0;   // of the busy: their first token would have missed the target
  int64_t taken = 0;  // of the preempted: for another tenant's share
  int64_t finished = 0, cancelled = 0, errors = 0;
  int64_t expired = 0;      // waited longer than they were willing to
  int64_t timeouts = 0;     // took longer than they were given
  int64_t stopped = 0;      // single choices that their caller had enough of
  double busy_seconds = 0;  // of all steps
  double step_seconds = 0;  // of the last step
  double own_seconds = 0;   // of it, when the model did not run

  int running = 0, waiting = 0;
  int64_t pages = 0, free_pages = 0, cached_pages = 0;
  int64_t kv_bytes = 0;  // of the KV cache; 0 in the stats of a core, which knows pages alone
  ExpertUse experts;     // likewise

  // Those of another engine beside this one.
  void add(const EngineStats& other);
};

}  // namespace ingot
