// Experts that meet some places, more than the streaming kernel takes at a time and too few for those of
// experts_many.cuh: tiles of up to 16 places, by the matrix instruction of single warps, with exact weights.
#pragma once

#include <type_traits>

#include "matmul/cuda/experts/experts.cuh"
#include "matmul/cuda/stream/stream_formats.cuh"
#include "matmul/cuda/tall/tall.cuh"

namespace ingot::cuda {

inline constexpr int kSomeTile = 16;  // places

// All formats of codes.
bool experts_some_has(Format format);
// Bytes of scratch that run_experts_some() takes for so many places of `count` experts.
int64_t experts_some_scratch(Format format, int64_t places, int64_t count, int64_t cols);
// REQUIRES: run.tile is kSomeTile; ctx's scratch has as many bytes.
void run_experts_some(const ExpertRun& run, const DeviceCtx& ctx);

struct SomeArgs {
  const std::byte* weights = nullptr;
  int chunks = 0, units = 0, sixteens = 0;  // of a row; of x; of an expert's weights
  std::byte* x = nullptr;                   // SomeX
  View from;                                // what x is made of: bf16, zeros from K to a multiple of 32 columns
  int per_row = 1;                          // place p has row p / per_row of it
  TallGroups groups;
};

// x as lanes read it: [tile][unit][octet] of the values of 32 lanes, 16 bytes each and times 2^W::kXPower, and what the
// offsets of codes and their mins need: sums of 16 columns or of the unit for each of eight places, as GroupSums has
// them; or, where a chunk's mins are integers times one number of its row, the sums of its units as an operand that
// meets those integers, each in three terms of bf16: of a chunk 8 bytes for each lane, 64 behind each unit.
template <class W>
struct SomeX {
  static constexpr bool kByMins = std::is_same_v<typename W::Scales, BytesAndMins>;
  static constexpr bool kHasSums = !kByMins && (W::kBias != 0 || W::Scales::kMins);
  static constexpr int kSums = !kHasSums ? 0 : W::kGroupSteps == 1 ? 2 : 1;
  static constexpr int kOctet = 512 + (kByMins ? 64 : kSums * 32);  // bytes
  static_assert(!kByMins || W::kUnits == 4);
};

// The kernels of a format. Sets args.chunks.
template <class W>
void run_some_format(SomeArgs& args, const DeviceCtx& ctx);

}  // namespace ingot::cuda
