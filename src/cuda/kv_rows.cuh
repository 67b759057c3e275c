// Keys and values on their way into the device's KV cache, and the rotation of one head. KvWrite, RopeKvWrite and the
// product's epilogue share these functions, so that they agree bit for bit; attention reads what they wrote.
//
// A row is one slot of one head: `dim` elements of f32, f16, bf16 or fp8, or int8 (q8_0). The types below 32 bits have
// their 16-byte pieces permuted where dim is a multiple of 64. q8_0 has an f16 scale for each 32 elements of a row;
// those of a page's head lie behind all its rows, [slot][ceil(dim / 32)], so that rows of codes lie like those of fp8.
#pragma once

#include "cuda/kernel.cuh"
#include "cuda/kv_place.h"
#include "quant/formats/f8_e4m3.h"

namespace ingot::cuda {

// 8-bit elements, 16 to a piece.
__host__ __device__ constexpr bool kv_is_coded(DType dtype) { return dtype == DType::kFp8 || dtype == DType::kQ8_0; }
__host__ __device__ constexpr int kv_element_bytes(DType dtype) {
  return dtype == DType::kF32 ? 4 : kv_is_coded(dtype) ? 1 : 2;
}
// Where piece `piece` of a coded row lies: as kv_piece(), where two rows of an odd multiple of 64 bytes share the banks
// of one of 128.
__host__ __device__ constexpr int kv_code_piece(int dim, int slot, int piece) {
  return piece ^ (dim % 128 == 0 ? slot & 7 : slot >> 1 & 3);
}

// Where element i lies in the row of a slot.
__host__ __device__ constexpr int kv_index(DType dtype, int dim, int slot, int i) {
  if (dtype == DType::kF32 || dim % 64 != 0) return i;
  return kv_is_coded(dtype) ? kv_code_piece(dim, slot, i / 16) * 16 + i % 16 : kv_piece(slot, i / 8) * 8 + i % 8;
}

// The bits of a value in f16 or bf16; finite values beyond the largest of f16 become the largest.
__device__ inline uint16_t kv_bits(DType dtype, float x) {
  if (dtype == DType::kBF16) return bf16_bits(x);
  if (x > 65504.0f && x < INFINITY) x = 65504.0f;
  if (x < -65504.0f && x > -INFINITY) x = -65504.0f;
  return f16_bits(x);
}
__device__ inline uint8_t fp8_bits(float x) {
  uint8_t code;
  F8_E4M3::encode(&x, &code);
  return code;
}

// One element to where kv_index() says. REQUIRES: not q8_0, whose scales need all of a block: kv_write_row().
__device__ inline void kv_store(std::byte* to, DType dtype, float x) {
  if (dtype == DType::kF32) {
    *reinterpret_cast<float*>(to) = x;
  } else if (dtype == DType::kFp8) {
    *to = static_cast<std::byte>(fp8_bits(x));
  } else {
    *reinterpret_cast<uint16_t*>(to) = kv_bits(dtype, x);
  }
}
// Elements i and i + 1 with one store. REQUIRES: not q8_0; i and dim even.
__device__ inline void kv_set_pair(const KvRow& row, int i, float x0, float x1) {
  const int at = kv_index(row.dtype, row.dim, row.slot, i);
  if (row.dtype == DType::kF32) {
    *reinterpret_cast<float2*>(reinterpret_cast<float*>(row.at) + at) = make_float2(x0, x1);
  } else if (row.dtype == DType::kFp8) {
    *reinterpret_cast<uint16_t*>(row.at + at) = static_cast<uint16_t>(fp8_bits(x0) | fp8_bits(x1) << 8);
  } else {
    *reinterpret_cast<uint32_t*>(reinterpret_cast<uint16_t*>(row.at) + at) =
        kv_bits(row.dtype, x0) | static_cast<uint32_t>(kv_bits(row.dtype, x1)) << 16;
  }
}

// Elements i … i + 7 with one store. REQUIRES: bf16 or fp8; i and dim multiples of 8, the row at a multiple of 16
// bytes.
__device__ inline void kv_set_eight(const KvRow& row, int i, const float (&x)[8]) {
  const int at = kv_index(row.dtype, row.dim, row.slot, i);
  if (row.dtype == DType::kFp8) {
    uint32_t codes[2] = {};
#pragma unroll
    for (int e = 0; e < 8; ++e) codes[e / 4] |= static_cast<uint32_t>(fp8_bits(x[e])) << (8 * (e % 4));
    *reinterpret_cast<uint2*>(row.at + at) = make_uint2(codes[0], codes[1]);
  } else {
    *reinterpret_cast<uint4*>(row.at + 2 * at) =
        make_uint4(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7]));
  }
}

// The scale of a block of q8_0 with this largest magnitude, and its bits.
__device__ inline float q8_scale(float largest, uint16_t& bits) {
  const float scale = largest / 127.0f;
  bits = f16_bits(scale > kQ8MostScale && scale < INFINITY ? kQ8MostScale : scale);
  return f16_value(bits);
}

// A whole row of any type, by a whole warp: value(i) is element i, asked for by the lane that stores it.
template <class F>
__device__ void kv_write_row(const KvRow& row, F&& value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row.dtype == DType::kQ8_0) {
    for (int begin = 0; begin < row.dim; begin += kQ8Block) {
      const int i = begin + lane;
      const float x = i < row.dim ? value(i) : 0.0f;
      uint16_t half;
      const float scale = q8_scale(warp_max(fabsf(x)), half);
      const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
      if (i < row.dim)
        row.at[kv_index(row.dtype, row.dim, row.slot, i)] =
            static_cast<std::byte>(static_cast<int>(rintf(fminf(fmaxf(x * inverse, -127.0f), 127.0f))));
      if (lane == 0) reinterpret_cast<uint16_t*>(row.scales)[begin / kQ8Block] = half;
    }
  } else if (row.dim % 2 == 0) {
    for (int i = 2 * lane; i < row.dim; i += 64) kv_set_pair(row, i, value(i), value(i + 1));
  } else {
    for (int i = lane; i < row.dim; i += 32)
      kv_store(row.at + kv_index(row.dtype, row.dim, row.slot, i) * kv_element_bytes(row.dtype), row.dtype, value(i));
  }
}

// Element i of a row of any type. `dtype` is the row's; as a constant it leaves one branch.
__device__ inline float kv_get(const KvRow& row, DType dtype, int i) {
  const int at = kv_index(dtype, row.dim, row.slot, i);
  if (dtype == DType::kQ8_0)
    return static_cast<float>(static_cast<int8_t>(row.at[at])) *
           f16_value(reinterpret_cast<const uint16_t*>(row.scales)[i / kQ8Block]);
  if (dtype == DType::kFp8) {
    float x;
    F8_E4M3::decode(reinterpret_cast<const uint8_t*>(row.at + at), &x);
    return x;
  }
  return load_value(row.at, at, dtype);
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
