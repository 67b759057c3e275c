// Floats into the KV cache's type. Shared by the CPU versions of KvWrite and RopeKvWrite.
#pragma once

#include <cstring>

#include "base/check.h"
#include "ops/kv_cache.h"

namespace ingot::cpu {

// n floats to the elements from `at` on. REQUIRES: a type that the cache has (f32, f16, bf16).
inline void store_row(const float* from, int64_t n, std::byte* base, DType dtype, int64_t at) {
  uint16_t* to = reinterpret_cast<uint16_t*>(base) + at;
  switch (dtype) {
    case DType::kF32:
      std::memcpy(base + at * 4, from, static_cast<size_t>(n) * 4);
      return;
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i) to[i] = f32_to_f16(from[i]);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i) to[i] = f32_to_bf16(from[i]);
      return;
    case DType::kI32:
      break;
  }
  CHECK(false, "a KV cache of {}", dtype_name(dtype));
}

}  // namespace ingot::cpu
