// Keys and values on their way into the device's KV cache, and the rotation of one head. KvWrite, RopeKvWrite and the
// product's epilogue share these functions, so that they agree bit for bit; attention reads what they wrote.
//
// A row is one slot of one head: `dim` elements of f32, f16 or bf16, the two narrow types with their 16-byte pieces
// permuted where dim is a multiple of 64 (kv_piece()). q8_0: dim int8, then an f16 scale for each 32 of them.
#pragma once

#include "cuda/kernel.cuh"
#include "cuda/kv_place.h"

namespace ingot::cuda {

// Where element i lies in the row of a slot. REQUIRES: not q8_0.
__host__ __device__ constexpr int kv_index(DType dtype, int dim, int slot, int i) {
  return dtype != DType::kF32 && dim % 64 == 0 ? kv_piece(slot, i / 8) * 8 + i % 8 : i;
}

// The bits of a value in a narrow type; finite values beyond the largest of f16 become the largest.
__device__ inline uint16_t kv_bits(DType dtype, float x) {
  if (dtype == DType::kBF16) return bf16_bits(x);
  if (x > 65504.0f && x < INFINITY) x = 65504.0f;
  if (x < -65504.0f && x > -INFINITY) x = -65504.0f;
  return f16_bits(x);
}

// Element i of a row, by one thread. REQUIRES: not q8_0, whose scales need all of a block: kv_write_row().
__device__ inline void kv_set(std::byte* row, DType dtype, int dim, int slot, int i, float x) {
  const int at = kv_index(dtype, dim, slot, i);
  if (dtype == DType::kF32) {
    reinterpret_cast<float*>(row)[at] = x;
  } else {
    reinterpret_cast<uint16_t*>(row)[at] = kv_bits(dtype, x);
  }
}
// Elements i and i + 1 with one store. REQUIRES: not q8_0; i and dim even.
__device__ inline void kv_set_pair(std::byte* row, DType dtype, int dim, int slot, int i, float x0, float x1) {
  const int at = kv_index(dtype, dim, slot, i);
  if (dtype == DType::kF32) {
    *reinterpret_cast<float2*>(reinterpret_cast<float*>(row) + at) = make_float2(x0, x1);
  } else {
    *reinterpret_cast<uint32_t*>(reinterpret_cast<uint16_t*>(row) + at) =
        kv_bits(dtype, x0) | static_cast<uint32_t>(kv_bits(dtype, x1)) << 16;
  }
}

// A whole row of any type, by a whole warp: value(i) is element i, asked for by the lane that stores it.
template <class F>
__device__ void kv_write_row(std::byte* row, DType dtype, int dim, int slot, F&& value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (dtype == DType::kQ8_0) {
    for (int begin = 0; begin < dim; begin += kQ8Block) {
      const int i = begin + lane;
      const float x = i < dim ? value(i) : 0.0f;
      float scale = warp_max(fabsf(x)) / 127.0f;
      const uint16_t half = kv_bits(DType::kF16, scale);
      scale = f16_value(half);
      const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
      if (i < dim) row[i] = static_cast<std::byte>(static_cast<int>(rintf(fminf(fmaxf(x * inverse, -127.0f), 127.0f))));
      // Two bytes one by one: an odd dim leaves the scales at odd addresses.
      if (lane < 2) row[dim + begin / kQ8Block * 2 + lane] = static_cast<std::byte>(half >> (8 * lane));
    }
  } else if (dim % 2 == 0) {
    for (int i = 2 * lane; i < dim; i += 64) kv_set_pair(row, dtype, dim, slot, i, value(i), value(i + 1));
  } else {
    for (int i = lane; i < dim; i += 32) kv_set(row, dtype, dim, slot, i, value(i));
  }
}

// Element i of a row of any type.
__device__ inline float kv_get(const std::byte* row, DType dtype, int dim, int slot, int i) {
  if (dtype == DType::kQ8_0) {
    const std::byte* scale = row + dim + i / kQ8Block * 2;
    const uint16_t half = static_cast<uint16_t>(static_cast<int>(scale[0]) | static_cast<int>(scale[1]) << 8);
    return static_cast<float>(static_cast<int8_t>(row[i])) * f16_value(half);
  }
  return load_value(row, kv_index(dtype, dim, slot, i), dtype);
}

// One pair of a head, rotated. The same bits wherever it is called: each result is one product and one fma.
__device__ inline void rotate_pair(float& a, float& b, float cos, float sin) {
  const float before = a;
  a = fmaf(before, cos, -(b * sin));
  b = fmaf(b, cos, before * sin);
}

// How the heads of a tensor are rotated: pairs (i, i + rotary / 2), or (2i, 2i + 1) when interleaved.
struct Rotation {
  const float* table = nullptr;  // [rotary]: rotary / 2 cosines, then the sines
  int rotary = 0;
  bool interleaved = false;

  // The columns of pair p. REQUIRES: p < rotary / 2.
  __host__ __device__ int first(int p) const { return interleaved ? 2 * p : p; }
  __host__ __device__ int second(int p) const { return interleaved ? 2 * p + 1 : p + rotary / 2; }
  // Which pair column i belongs to. REQUIRES: i < rotary.
  __host__ __device__ int pair(int i) const { return interleaved ? i / 2 : i % (rotary / 2); }

  // Column i of the rotated head whose columns before were value(…); columns from `rotary` on are left as they are.
  template <class F>
  __device__ float rotated(int i, F&& value) const {
    if (i >= rotary) return value(i);
    const int p = pair(i);
    float a = value(first(p)), b = value(second(p));
    rotate_pair(a, b, table[p], table[p + rotary / 2]);
    return i == first(p) ? a : b;
  }
};

}  // namespace ingot::cuda
