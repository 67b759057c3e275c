// What a load test sends and when: prompts, lengths, arrivals. Everything follows from the options and the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench/trace/trace_file.h"
#include "cli/bench/trace/trace_replay.h"
#include "files/json.h"

namespace ingot {

struct LoadOptions {
  // Arrivals: `rate` > 0 is an open loop, a trace file is a replay, otherwise a closed loop of `concurrency` clients.
  int concurrency = 1;
  double rate = 0;  // requests a second on average, with the arrivals of a Poisson process
  std::string trace = {};
  TraceScale scale = {};
  size_t requests = 0;  // 0: until `duration`, or what LoadPlan says
  double duration = 0;  // seconds in which requests are sent; 0: no limit
  double rest = -1;     // a rejected client of a closed loop waits so long; below 0: as Retry-After says, or 1 s

  // Prompts and answers; a trace has lengths of its own.
  int prompt_tokens = 100;
  int gen_tokens = 64;
  int shared_words = 0;  // every prompt begins with the same words
  int prompt_ids = 0;    // > 0: prompts are ids below this instead of words

  bool chat = true;  // /v1/chat/completions, or /v1/completions
  std::string model = {};
  bool ignore_eos = false;
  JsonObject fields = {};     // further ones of the body; they win
  double cancel_percent = 0;  // of the requests are cut by the client before their end
  uint64_t seed = 1;
};

// When a client gives up: after so many pieces of the answer or so many milliseconds; 0: it does not.
struct LoadCancel {
  int pieces = 0;
  int ms = 0;
};

class LoadPlan {
 public:
  enum class Mode : uint8_t { kClosed, kOpen, kTrace };

  // Reads the trace. Throws Error. A closed loop without requests and duration sends ten for each client, an open one
  // a hundred.
  explicit LoadPlan(const LoadOptions& options);

  const LoadOptions& options() const { return options_; }
  Mode mode() const { return mode_; }
  const char* mode_name() const;  // "closed", "open" or "trace"
  // Of all; 0: as many as fit in the duration.
  size_t requests() const { return requests_; }
  // When the request is due, in seconds; 0 in a closed loop. REQUIRES: index < requests().
  double due(size_t index) const { return mode_ == Mode::kClosed ? 0 : dues_[index]; }
  // The body of the request.
  std::string body(size_t index) const;
  LoadCancel cancel(size_t index) const;

 private:
  std::vector<int32_t> prompt(size_t index, int vocab) const;
  int gen_tokens(size_t index) const;

  LoadOptions options_;
  Mode mode_;
  size_t requests_ = 0;
  Trace trace_;
  std::vector<double> dues_;
};

}  // namespace ingot
