// The peak of the multipliers that the linear kernels of each instruction set use, for percentages of it: loops of
// nothing but products in registers (multiplier_<set>.cpp, all from multiplier_loops.h).
#pragma once

#include <cstdint>

namespace ingot::cpu {

struct Multiplier {
  // Runs for some `rounds` and gives the operations that were done, two for each product and its addition.
  double (*int8)(int64_t rounds);  // 8-bit integers, as the set multiplies many rows
  double (*f32)(int64_t rounds);   // float32
  double (*bf16)(int64_t rounds);  // weights of bf16: as f32 where the set rounds no x to it
};

// Of the set that isa() names.
const Multiplier& multiplier();

}  // namespace ingot::cpu
