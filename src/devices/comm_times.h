// How long collectives and messages take, by carrier and size.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "comm/comm.h"

namespace ingot {

// Something that carries between ranks.
struct CommCarrier {
  const char* name;
  const char* summary;
  // Why it cannot run here; empty: it can.
  std::string (*refusal)();
  // Calls `body` with the end of each rank that this process has, each in a thread of its own, and waits for all.
  // `ranks`: how many there shall be, where that is ours to choose. Throws what a body threw first.
  void (*run)(int ranks, const std::function<void(Comm&)>& body);
};
std::span<const CommCarrier> comm_carriers();

struct CommTime {
  std::string op;      // "all_reduce" …
  int64_t bytes = 0;   // of the whole: what all_reduce sums, what all_gather gives to everyone, a message
  double us = 0;       // median of five
  double bus_gbs = 0;  // bytes that must cross between ranks for each rank, over the time: comparable over rank counts
};

struct CommTimesOptions {
  int64_t least_bytes = 1 << 10, most_bytes = 1 << 30;  // sizes in steps of four
  double seconds = 0.05;                                // of each op and size
};

// All ops in all sizes; every rank calls it. Rank 0 tells of each, and may throw in it, which ends all. What is carried
// is checked: throws Error where it is wrong.
void time_comm(Comm& comm, const CommTimesOptions& options, const std::function<void(const CommTime&)>& tell);

}  // namespace ingot
