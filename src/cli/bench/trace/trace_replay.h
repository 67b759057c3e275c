// Sends the requests of a trace to an engine when they are due, and writes down when each answer's tokens came.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/bench/trace/trace_file.h"
#include "engine/engine.h"

namespace ingot {

struct TraceScale {
  int length = 16;  // prompts and answers are so many times shorter than in the trace
  double time = 6;  // and requests come so many times faster
};

// A length of the trace after scaling, at least 1.
int scaled_tokens(int tokens, const TraceScale& scale);

// Tokens for a request that is the `index`th of its trace. Those of a block depend on its id alone, so that prompts
// share what they shared in the trace; without blocks the prompt is like no other.
std::vector<int32_t> trace_prompt(const TraceRequest& request, size_t index, const TraceScale& scale, int vocab);

// Times are seconds since the replay began.
struct TraceRecord {
  enum class State : uint8_t {
    kOpen,
    kFinished,
    kBusy,     // rejected: too many waited, or it would have been late
    kRefused,  // the engine could never serve it
    kFailed,
  };
  State state = State::kOpen;
  bool late = false;  // of one that is busy: its first token would have missed the target
  double due = 0;     // by the scaled trace; waiting counts from here even where the client was late
  double sent = 0;    // when it was handed to the engine
  double first = 0;
  double last = 0;
  int prompt = 0;
  int tokens = 0;
  int reused = 0;                // rows of the prompt that were in the prefix cache
  std::vector<float> gaps = {};  // seconds between tokens
  std::string refused = {};      // why
};

// The engine's state at one moment; counters since the replay began.
struct TraceSample {
  double at = 0;
  int running = 0, waiting = 0;
  int64_t tokens = 0;
  int64_t held_pages = 0, cached_pages = 0;
};

struct TraceRun {
  std::vector<TraceRecord> records;  // [requests of the trace]
  std::vector<TraceSample> samples;  // at equal distances, at most kMaxTraceSamples
  EngineStats stats;                 // counters of the replay alone
  double seconds = 0;                // until the last answer was complete
};

inline constexpr size_t kMaxTraceSamples = 1024;

// One request is served before the clock starts, so that no figure holds the first touch of weights and memory.
// `on_sample` is called now and then with the number of requests that have ended. Throws Interrupted.
TraceRun replay_trace(Engine& engine, const Trace& trace, const TraceScale& scale,
                      const std::function<void(size_t ended, const TraceSample&)>& on_sample);

}  // namespace ingot
