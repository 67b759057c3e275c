// What measuring a ladder on the CPU and on a CUDA device share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ladder/ladder.h"

namespace ingot::ladder {

// The step of the list. REQUIRES: there is one.
const StepInfo* find_step(const std::string& op, bool cuda, int order);

// Throws Error where a name is of no operator that has steps there.
void check_names(const std::vector<std::string>& names, bool cuda);
bool is_wanted(const std::vector<std::string>& names, const std::string& name);

// The same words in every run.
inline uint32_t random_word(uint64_t i, uint32_t below) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
  const auto word = static_cast<uint32_t>(x >> 32);
  return below == 0 ? word : static_cast<uint32_t>(uint64_t{word} * below >> 32);
}

// One case, without times.
template <class Op>
LadderTimes times_of(const std::string& name, const LadderCase<Op>& c, const Op& op) {
  const Cost cost = op.cost(Shape{});
  LadderTimes times;
  times.op = name;
  times.size = c.size;
  times.dtype = c.dtype;
  times.variant = c.variant;
  times.bytes = cost.bytes;
  times.flops = cost.flops;
  times.items = c.items;
  times.unit = c.unit;
  times.limit = c.limit;
  times.multiplies = c.multiplies;
  return times;
}

// Runs a step on the case's operands; returns the seconds of one.
using Runner = std::function<double()>;

// Fills in the medians of times.steps, one runner each, and the rivals': all in turn, `rounds` times. What is slow is
// run less often: at least three times, no more than 0.4 s in all.
inline constexpr int kRounds = 20;
void measure(LadderTimes& times, const std::vector<Runner>& runners, Rivals* rivals, const std::string& device,
             int rounds = kRounds);

}  // namespace ingot::ladder
