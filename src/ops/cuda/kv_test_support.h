// Rows of the device's KV cache for tests, by the words of ops/cuda/ctx.h and cuda/kv_rows.cuh alone.
#pragma once

#include <cstring>
#include <vector>

#include "ops/kv_cache.h"

namespace ingot::test {

// A slot of a head as the reference's values lie: its elements in order, then its scales. `pages` is a copy of the
// device's keys or values from page 0 on, whose heads have `dim` elements.
inline std::vector<std::byte> device_row(const KvLayer& kv, const std::byte* pages, int dim, int64_t slot, int head) {
  const bool coded = kv.dtype == DType::kFp8 || kv.dtype == DType::kQ8_0;
  const int64_t bytes = dtype_row_bytes(kv.dtype, dim), place = slot % kv.page_rows;
  const int64_t row_bytes = kv.dtype == DType::kQ8_0 ? dim : bytes, scales = bytes - row_bytes;
  const std::byte* base = pages + (slot / kv.page_rows * kv.kv_heads + head) * kv.page_rows * bytes;
  const std::byte* row = base + place * row_bytes;
  std::vector<std::byte> result(row, row + row_bytes);
  if (kv.dtype != DType::kF32 && dim % 64 == 0) {
    const int64_t turn = coded && dim % 128 != 0 ? slot / 2 % 4 : slot % 8;
    for (int64_t piece = 0; piece < row_bytes / 16; ++piece)
      std::memcpy(result.data() + piece * 16, row + (piece ^ turn) * 16, 16);
  }
  const std::byte* behind = base + kv.page_rows * row_bytes + place * scales;
  result.insert(result.end(), behind, behind + scales);
  return result;
}

}  // namespace ingot::test
