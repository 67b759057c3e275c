// A whole engine in one thread from one seed: the real scheduler, pages, prefix cache and request states, with a
// scripted model, clock and clients, and with faults. Every step is checked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ingot::sim {

struct Outcome {
  std::string violation;                     // what did not hold, and in which step; empty where all did
  uint64_t trace = 0;                        // a hash of all that happened
  std::map<std::string, int64_t> sometimes;  // how often each rare thing happened
};

Outcome simulate(uint64_t seed, int steps);

// What must happen at least once in a run of many seeds.
const std::vector<std::string>& required_branches();

// From now on the `n`th allocation of this thread fails; -1: none does. (The program's operator new asks this.)
void fail_allocation(int n);
// Allocations between the two neither fail nor count.
void pause_allocation_failure();
void resume_allocation_failure();
// Whether the one that was to fail has come.
bool allocation_failed();
// Of this thread, so far.
int64_t allocations();

}  // namespace ingot::sim
