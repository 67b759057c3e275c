// Requests of one size on an engine whose pages are scarce, and how long small ones wait for their first token.
#pragma once

#include <algorithm>
#include <string>

#include "sim/fair_load.h"

namespace ingot::sim {

constexpr int kScarcePages = 500, kScarcePageRows = 32;
const EngineConfig kScarceConfig{.max_seqs = 8, .step_rows = 256, .page_rows = kScarcePageRows};

inline FairTenant one_size(const std::string& name, int prompt, int answer, int open = 1) {
  return {.name = name,
          .open = open,
          .prompt_from = prompt,
          .prompt_to = prompt,
          .answer_from = answer,
          .answer_to = answer};
}

// Seconds to the first token of one request.
inline double first_token(FairLoad& load, const FairTenant& tenant) {
  const double came = load.now();
  const SeqId id = load.submit(tenant);
  while (!load.first.contains(id)) load.step();
  return load.first[id] - came;
}

inline double alone(const FairTenant& tenant) {
  FairLoad load(kScarceConfig, kScarcePages, 1);
  return first_token(load, tenant);
}

// The engine has seen how long rows of prompts take.
inline void warm_up(FairLoad& load) { first_token(load, one_size("first", 2000, 1)); }

struct Waits {
  double longest = 0, sum = 0;
  int n = 0;
  double mean() const { return sum / n; }
  void add(const Waits& more) {
    longest = std::max(longest, more.longest);
    sum += more.sum;
    n += more.n;
  }
};

// Small requests, one every tenth of a second and not before the last has ended, for so many seconds.
inline Waits small_requests(FairLoad& load, const FairTenant& small, double seconds) {
  Waits waits;
  for (const double until = load.now() + seconds; load.now() < until;) {
    const double seen = first_token(load, small);
    waits.longest = std::max(waits.longest, seen);
    waits.sum += seen;
    ++waits.n;
    load.run(0.1);
  }
  return waits;
}

}  // namespace ingot::sim
