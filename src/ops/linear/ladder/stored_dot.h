// The ladder's rung of weights as they are stored, for the instruction set INGOT_ISA (cpu/isa_source.h). Plain loops:
// what the compiler makes of them for the set is the point.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa_source.h"
#include "matmul/cpu/panel_kernels.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// What an f16 stands for, in plain integers and one product: no header's inline code may be compiled here.
inline float half(const uint8_t* p) {
  const uint32_t bits = static_cast<uint32_t>(p[0] | p[1] << 8);
  const uint32_t moved = (bits & 0x7fffu) << 13;
  const float finite = __builtin_bit_cast(float, moved) * 0x1p112f;
  return (bits & 0x8000u) != 0 ? -finite : finite;
}

inline float stored_dot(const std::byte* row, const XRow& x, int64_t cols) {
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
}  // namespace ingot::cpu::INGOT_ISA
