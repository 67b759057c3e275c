#include "emulator/emulator.h"

namespace ingot::cuda {
namespace {

uint32_t two(const std::byte* low, const std::byte* high) {
  uint16_t a = 0, b = 0;
  std::memcpy(&a, low, 2);
  std::memcpy(&b, high, 2);
  return a | uint32_t{b} << 16;
}

struct Fragments {
  uint32_t a[4];
  uint32_t b[2];
};

template <class Value>
void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Value& value) {
  const Fragments mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const auto [all, lane] = emulated::meet(mine);
  const auto half = [](uint32_t word, int k) { return static_cast<uint16_t>(word >> (k % 2 * 16)); };
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
    float sum = d[i];
    for (int k = 0; k < 16; ++k) {
      const auto of_a = emulated::from<Fragments>(all, row % 8 * 4 + k % 8 / 2);
      const auto of_b = emulated::from<Fragments>(all, col * 4 + k % 8 / 2);
      sum += value(half(of_a.a[row / 8 + k / 8 * 2], k)) * value(half(of_b.b[k / 8], k));
    }
    d[i] = sum;
  }
  __syncwarp();
}

}  // namespace

void load_matrices(uint32_t (&r)[4], const void* row) {
  CHECK(reinterpret_cast<uintptr_t>(row) % 16 == 0, "a row of a matrix is not aligned");
  const auto [all, lane] = emulated::meet(row);
  for (int m = 0; m < 4; ++m) {
    const auto* from = emulated::from<const std::byte*>(all, 8 * m + lane / 4) + lane % 4 * 4;
    r[m] = two(from, from + 2);
  }
  __syncwarp();
}

void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
  CHECK(reinterpret_cast<uintptr_t>(row) % 16 == 0, "a row of a matrix is not aligned");
  const auto [all, lane] = emulated::meet(row);
  for (int m = 0; m < 4; ++m) {
    const auto* low = emulated::from<const std::byte*>(all, 8 * m + lane % 4 * 2);
    const auto* high = emulated::from<const std::byte*>(all, 8 * m + lane % 4 * 2 + 1);
    r[m] = two(low + lane / 4 * 2, high + lane / 4 * 2);
  }
  __syncwarp();
}

void multiply_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  multiply(d, a, b, [](uint16_t bits) { return bf16_to_f32(bits); });
}

void multiply_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  multiply(d, a, b, [](uint16_t bits) { return f16_to_f32(bits); });
}

}  // namespace ingot::cuda
