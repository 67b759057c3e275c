// What the kernel of nine to 32 rows takes in a step, by format.
#pragma once

#include <type_traits>

#include "matmul/cuda/stream/stream_formats.cuh"
#include "matmul/cuda/wide/wide_plan.h"

namespace ingot::cuda {

// Whether nine to 32 rows meet exact weights by the matrix instruction of warps (wide_groups.cuh): INT4, whose four
// linears of an 8B model take 74 us of an H200 so at 32 rows, 96 by warpgroups. The other codes are rounded to bf16 and
// go by warpgroups: warps give them the same sums, but are not measured in whole models yet.
template <class W>
inline constexpr bool kByWarps = std::is_same_v<W, StreamINT4>;

// What lies behind the 32 rows of x of a step (4 units of 32 columns): for each group and octet what its sums begin
// with, as four lanes hold them; or, where a chunk's mins are integers times one number of its row, the sums of its
// units as an operand that meets those integers, each in three terms of bf16, 8 bytes for each lane of an octet.
template <class W>
struct WideSums {
  static constexpr bool kByMins = std::is_same_v<typename W::Scales, BytesAndMins>;
  static constexpr bool kHasSums = !kByMins && W::kBias != 0;
  static constexpr int kGroups = 8 / W::kGroupSteps;  // of a step
  static constexpr int kOctet = kByMins ? 256 : 64;
  static constexpr int kBytes = kByMins ? kWideOctets * kOctet : kHasSums ? kGroups * kWideOctets * kOctet : 0;
  static_assert(W::kGroupSteps <= 8 && (!W::Scales::kMins || (kByMins && W::kUnits == 4)));
};

// x of a step of codes: two rectangles of 64 columns (tensor_copy.cuh), then, octet by octet, as lanes read it.
inline constexpr int kWideXHalf = kWideRows * 128, kWideXBytes = 2 * kWideXHalf;

// What a format (stream_formats.cuh) brings in a step.
template <class W>
constexpr WideStep wide_step() {
  constexpr int kUnits = W::kByGroups || W::kUnits > 2 ? 4 : 2;
  WideStep step{.units = kUnits,
                .sixteen_bytes = kUnits / W::kUnits * W::kBytes,
                .most_slices = W::kByGroups && !kByWarps<W> ? 4 : 8};
  // Rectangles begin at multiples of 1 KB.
  if constexpr (kByWarps<W>) step.beside_x = (WideSums<W>::kBytes + 1023) / 1024 * 1024;
  return step;
}

}  // namespace ingot::cuda
