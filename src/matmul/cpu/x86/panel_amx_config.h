// The shapes of AMX's tiles.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/isa_source.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

struct TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// Tiles below `first_x`: sums of `x_rows` rows; from there to 5: x, `k_bytes` of each row; 6 and 7: weights.
inline void configure(int x_rows, int k_bytes, int first_x = 4) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.rows[t] = static_cast<uint8_t>(t < 6 ? x_rows : k_bytes / 4);
    config.row_bytes[t] = static_cast<uint16_t>(t >= first_x && t < 6 ? k_bytes : 64);
  }
  asm volatile("" : "+m"(config));  // the compiler's header says that 8 of its bytes are read
  _tile_loadconfig(&config);
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
