// The places of a step by expert. A place is one expert of one row: place t · k + j is row t's j-th. The list is made
// on the device, for kernels that read it there; the host knows only how long it can be.
#pragma once

#include <cstdint>

#include "cuda/device_ctx.h"

namespace ingot::cuda {

// Places list.place[first … first + count) of one expert.
struct alignas(16) ExpertTile {
  int32_t expert, first, count, unused;
};

// What is made once for all products that meet the same places. In memory of the device.
struct ExpertList {
  int32_t* place = nullptr;     // [T · k] in order of their expert; of one expert in their own order
  int32_t* n_tiles = nullptr;   // [1]
  ExpertTile* tiles = nullptr;  // in order of their expert
};

// Tiles that `places` places of `count` experts can make, at most.
constexpr int64_t most_tiles(int64_t places, int64_t count, int tile) {
  const int64_t most = places / tile + (count < places ? count : places);
  return most < places ? most : places;
}

// `rows` · used places, but those of rows from *true_rows on, which are in no tile. Tiles have at most `tile` places.
struct ExpertChoice {
  const int32_t* experts = nullptr;  // [rows, used]
  int64_t stride = 0;                // of a row
  int used = 0, count = 0;
  const int32_t* true_rows = nullptr;
};
// With `count` experts it takes list_scratch() bytes of ctx's scratch.
int64_t list_scratch(int64_t count);
void list_experts(const ExpertChoice& choice, int64_t rows, int tile, const ExpertList& list, const DeviceCtx& ctx);

}  // namespace ingot::cuda
