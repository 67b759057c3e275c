// By the format's definition, one value after the other.
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

// A scale, then 16 bytes whose low nibbles are the first 16 values.
void decode(const uint8_t* block, float* values) {
  for (int i = 0; i < 16; ++i) {
    values[i] = half(block) * static_cast<float>((block[2 + i] & 15) - 8);
    values[i + 16] = half(block) * static_cast<float>((block[2 + i] >> 4) - 8);
  }
}

}  // namespace

void run(const Q4Linear& op, Ctx& ctx) {
  const Q4Operands& o = *op.operands;
  float* out = op.out.f32(0);
  for_q4_parts(op, ctx, [&](int64_t first, int64_t count, std::byte* scratch) {
    static_cast<void>(scratch);
    const int64_t cols = o.weight.cols;
    for (int64_t t = 0; t < o.rows; ++t) {
      for (int64_t n = first; n < first + count; ++n) {
        const auto* block = reinterpret_cast<const uint8_t*>(o.weight.row(n));
        float sum = 0;
        for (int64_t k = 0; k < cols; k += 32, block += 18) {
          float values[32];
          decode(block, values);
          for (int64_t i = 0; i < 32; ++i) sum += values[i] * o.x[t * cols + k + i];
        }
        out[t * o.weight.rows + n] = sum;
      }
    }
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
