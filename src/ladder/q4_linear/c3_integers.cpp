// x as int8: products of integers, one float operation for each 32 of them. The weights as they are published.
#include "ladder/cpu_step.h"
#include "ladder/q4_linear/q4_linear.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

// What an f16 stands for, in plain integers and one product: no header's inline code may be compiled here.
float half(const uint8_t* p) {
  const uint32_t bits = static_cast<uint32_t>(p[0] | p[1] << 8);
  const uint32_t moved = (bits & 0x7fffu) << 13;
  const float finite = __builtin_bit_cast(float, moved) * 0x1p112f;
  return (bits & 0x8000u) != 0 ? -finite : finite;
}

float dot(const std::byte* row, const XRow& x, int64_t cols) {
  const auto* block = reinterpret_cast<const uint8_t*>(row);
  float sum = 0;
  for (int64_t b = 0; b < cols / 32; ++b, block += 18) {
    const int8_t* q = x.q + 32 * b;
    int32_t products = 0;
    for (int i = 0; i < 16; ++i) products += ((block[2 + i] & 15) - 8) * q[i] + ((block[2 + i] >> 4) - 8) * q[i + 16];
    sum += half(block) * x.blocks[b].scale * static_cast<float>(products);
  }
  return sum;
}

}  // namespace

void run(const Q4Linear& op, Ctx& ctx) {
  const Q4Operands& o = *op.operands;
  float* out = op.out.f32(0);
  for_q4_parts(op, ctx, [&](int64_t first, int64_t count, std::byte* scratch) {
    static_cast<void>(scratch);
    const XRow* x = o.x_rows.data();
    for (int64_t n = first; n < first + count; ++n)
      for (int64_t t = 0; t < o.rows; ++t) out[t * o.weight.rows + n] = dot(o.weight.row(n), x[t], o.weight.cols);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
