// The fits of blocks of 256 values (fit.h), compiled for several instruction sets, with the same bits in each.
#pragma once

#include <span>

#include "quant/fit.h"

namespace ingot {

inline constexpr size_t kFitBlock = 256;

// REQUIRES of each: x has kFitBlock values, sub_size is 16 or 32. fit.h's functions check it: what a set is compiled
// from includes no formatting, whose inline code the linker could take for every CPU.
struct BlockFits {
  const char* name;  // of the set
  ScaledBlock (*scaled)(std::span<const float> x, const float* importance, size_t sub_size, const IntGrid& grid,
                        const IntGrid& scales);
  ScaledBlock (*scaled_book)(std::span<const float> x, const float* importance, size_t sub_size, const Codebook& grid,
                             const IntGrid& scales);
  AffineBlock (*affine)(std::span<const float> x, const float* importance, size_t sub_size, int q_max, int scale_max);
};

// Those that this CPU runs, best first.
std::span<const BlockFits* const> all_block_fits();

}  // namespace ingot
