#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/kv_write/kv_write.h"
#include "quant/formats/f8_e4m3.h"

namespace ingot::ref {
namespace {

// Finite values beyond the largest of f16 become the largest.
float finite_f16(float x) { return std::isfinite(x) ? std::clamp(x, -65504.0f, 65504.0f) : x; }

// Of a block with this largest magnitude; what is finite stays finite.
float q8_scale(float largest) { return std::isfinite(largest) ? std::min(largest / 127.0f, kQ8MostScale) : largest; }

// Elements lie `step` apart from element `first` on, of `count` in all; scales likewise behind them (q8_0).
struct Place {
  std::byte* base;
  int64_t first, step, count;
};

void store_q8_0(const Place& to, const float* x, int n) {
  for (int begin = 0; begin < n; begin += kQ8Block) {
    const int end = std::min(n, begin + kQ8Block);
    float largest = 0;
    for (int i = begin; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    const uint16_t half = f32_to_f16(q8_scale(largest));
    const float inverse = f16_to_f32(half) > 0 ? 1.0f / f16_to_f32(half) : 0.0f;
    std::memcpy(to.base + to.count + (begin / kQ8Block * to.step + to.first) * 2, &half, 2);
    for (int i = begin; i < end; ++i)
      to.base[i * to.step + to.first] =
          static_cast<std::byte>(std::lrintf(std::clamp(x[i] * inverse, -127.0f, 127.0f)));
  }
}

// A whole number of int8's, -127 … 127; NaN: 0.
float whole(float x) { return std::isnan(x) ? 0.0f : std::nearbyintf(std::clamp(x, -127.0f, 127.0f)); }

// fp8 and int8 hold x over `scale`.
void store(const Place& to, DType dtype, const float* x, int n, float scale) {
  if (dtype == DType::kQ8_0) return store_q8_0(to, x, n);
  const float inverse = 1.0f / scale;
  for (int i = 0; i < n; ++i) {
    const int64_t at = i * to.step + to.first;
    const float scaled = x[i] * inverse;
    if (dtype == DType::kInt8) {
      to.base[at] = static_cast<std::byte>(static_cast<int8_t>(whole(scaled)));
    } else if (dtype == DType::kF32) {
      std::memcpy(to.base + at * 4, x + i, 4);
    } else if (dtype == DType::kFp8) {
      F8_E4M3::encode(&scaled, reinterpret_cast<uint8_t*>(to.base + at));
    } else {
      const uint16_t half = dtype == DType::kF16 ? f32_to_f16(finite_f16(x[i])) : f32_to_bf16(x[i]);
      std::memcpy(to.base + at * 2, &half, 2);
    }
  }
}

// Keys [k_dim / 4][16][4], values [v_dim][4], both bf16.
void store_pairs(const KvLayer& kv, int64_t slot, int head, const float* k, const float* v) {
  for (int64_t d = 0; d < kv.k_dim; ++d) {
    const uint16_t half = f32_to_bf16(k[d]);
    std::memcpy(kv.k_group(slot, head) + (d / 4 * 64 + slot % 16 * 4 + d % 4) * 2, &half, 2);
  }
  for (int64_t d = 0; d < kv.v_dim; ++d) {
    const uint16_t half = f32_to_bf16(v[d]);
    std::memcpy(kv.v_group(slot, head) + (d * 4 + slot % 4) * 2, &half, 2);
  }
}

}  // namespace

void run(const KvWrite& op, Ctx& ctx) {
  const KvLayer& kv = op.kv;
  for (int64_t t = 0; t < ctx.rows(op.k); ++t) {
    const int64_t slot = ctx.batch.groups[static_cast<size_t>(kv.group)].slot[static_cast<size_t>(t)];
    for (int h = 0; h < kv.kv_heads; ++h) {
      if (kv.pairs) {
        store_pairs(kv, slot, h, op.k.f32(t) + h * kv.k_dim, op.v.f32(t) + h * kv.v_dim);
        continue;
      }
      const Place k{kv.k_group(slot, h), slot % kKeyGroup, kKeyGroup, int64_t{kv.k_dim} * kKeyGroup};
      store(k, kv.k_dtype(), op.k.f32(t) + h * kv.k_dim, kv.k_dim, kv.k_scale(h));
      store({kv.v_row(slot, h), 0, 1, kv.v_dim}, kv.dtype, op.v.f32(t) + h * kv.v_dim, kv.v_dim, kv.v_scale(h));
    }
  }
}

}  // namespace ingot::ref
