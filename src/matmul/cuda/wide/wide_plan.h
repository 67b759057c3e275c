// How the kernel of nine to 32 rows (wide_cuda.cu) cuts its work. Plain functions, for the host and for tests.
#pragma once

#include <algorithm>
#include <cstdint>

#include "matmul/cuda/stream/stream_packing.h"

namespace ingot::cuda {

inline constexpr int kWideConsumers = 8;              // warps
inline constexpr int kWideMost = 2 * kWideConsumers;  // times 16 rows of a slab
inline constexpr int kWideOctets = kWideRows / 8;     // of rows of x
inline constexpr int kTurnedRow = 20;                 // floats of 16 outputs in shared memory: lanes have 32 banks
inline constexpr int kTurnedRoom = 8 * kTurnedRow;

// What a format brings in a step: two times 32 columns or a chunk of more.
struct WideStep {
  int units = 2;             // of 32 columns
  int sixteen_bytes = 2048;  // of 16 rows of weights
  int most_slices = 8;
  int beside_x = 0;  // bytes

  constexpr int x_row() const { return units * 64; }  // bytes of a row of x
  constexpr int x_bytes() const;
};

constexpr int WideStep::x_bytes() const { return kWideRows * x_row() + beside_x; }

// Slabs of `tiles` packed tiles; their steps in `slices`, 1, 4 or 8. With slices there is one item for each block.
struct WidePlan {
  WideStep step;
  int tile_rows = 0;
  int tiles = 0;
  int slabs = 0, slices = 1;
  int steps = 0;
  int stages = 0;  // of the ring, at most 15: a block has 16 barriers

  // Times 16 rows of each consumer.
  constexpr int sixteens() const { return tiles * tile_rows <= 16 * kWideConsumers ? 1 : 2; }
  constexpr int stage_bytes() const { return tiles * (tile_rows / 16) * step.sixteen_bytes + step.x_bytes(); }
  constexpr int shared_bytes() const {
    return stages * (stage_bytes() + 16) + 8 + kWideRows * 4 + kWideConsumers * kTurnedRoom * 4;
  }
};

// Costs are in bytes that a block reads from memory in the same time, 36 to a nanosecond, as measured on an H200: of a
// step its weights and, from the L2 cache, x, but at least 0.4 us; of slices what they hand to each other.
constexpr WidePlan wide_plan(int64_t tiles, int tile_rows, int units, int multiprocessors, const WideStep& step = {}) {
  constexpr int kShared = 160 << 10;  // 110 and 200 were 0.5 and 1.5 % slower
  const int steps = (units + step.units - 1) / step.units;
  WidePlan best;
  int64_t best_cost = 0;
  for (int of_slab = 1; of_slab * tile_rows <= 256 && of_slab <= tiles; ++of_slab) {
    const int64_t slabs = (tiles + of_slab - 1) / of_slab;
    for (const int slices : {1, 4, 8}) {
      if (slices > step.most_slices) break;
      if (slices > 1 && (slabs * slices > multiprocessors || slices > steps)) continue;
      WidePlan plan{step, tile_rows, of_slab, static_cast<int>(slabs), slices, steps, 0};
      const int64_t rounds = slices > 1 ? 1 : (slabs + multiprocessors - 1) / multiprocessors;
      const int64_t of_block = rounds * ((steps + slices - 1) / slices);
      const int64_t each =
          std::max(14848, of_slab * (tile_rows / 16) * step.sixteen_bytes + kWideRows * 77 * step.units / 2);
      int64_t cost = of_block * each;
      if (slices > 1) cost += (54 << 10) + plan.sixteens() * (12 << 10);
      if (best_cost != 0 && cost >= best_cost) continue;
      plan.stages = std::min(15, (kShared - 6144) / (plan.stage_bytes() + 16));
      best = plan;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace ingot::cuda
