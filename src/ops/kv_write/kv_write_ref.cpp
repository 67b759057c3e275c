#include <cstring>

#include "ops/kv_write/kv_write.h"

namespace ingot::ref {
namespace {

void store(std::byte* base, DType dtype, int64_t at, float value) {
  if (dtype == DType::kF32) {
    std::memcpy(base + at * 4, &value, 4);
  } else {
    const uint16_t half = dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(base + at * 2, &half, 2);
  }
}

}  // namespace

void run(const KvWrite& op, Ctx& ctx) {
  const KvLayer& kv = op.kv;
  for (int64_t t = 0; t < ctx.rows(op.k); ++t) {
    const int64_t slot = ctx.batch.groups[static_cast<size_t>(kv.group)].slot[static_cast<size_t>(t)];
    for (int h = 0; h < kv.kv_heads; ++h) {
      for (int d = 0; d < kv.k_dim; ++d) store(kv.k, kv.dtype, kv.k_at(slot, h) + d, op.k.f32(t)[h * kv.k_dim + d]);
      for (int d = 0; d < kv.v_dim; ++d) store(kv.v, kv.dtype, kv.v_at(slot, h) + d, op.v.f32(t)[h * kv.v_dim + d]);
    }
  }
}

}  // namespace ingot::ref
