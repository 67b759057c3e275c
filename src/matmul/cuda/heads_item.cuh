// The end of q, k and v, 16 values of a row at a time: bias, the norm of heads, rope, and the KV cache.
#pragma once

#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {

__device__ inline void load8(const float* from, float (&x)[8]) {
  const float4* p = reinterpret_cast<const float4*>(from);
  const float4 a = p[0], b = p[1];
  x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
  x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}
// Eight elements from column i on.
__device__ inline void load8(const View& from, int64_t row, int64_t i, float (&x)[8]) {
  if (from.dtype == DType::kF32) return load8(reinterpret_cast<const float*>(from.row(row)) + i, x);
  const uint4 v = *reinterpret_cast<const uint4*>(reinterpret_cast<const uint16_t*>(from.row(row)) + i);
  const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    x[2 * e] = __uint_as_float(words[e] << 16);
    x[2 * e + 1] = __uint_as_float(words[e] & 0xffff0000u);
  }
}
__device__ inline uint4 pack8(const float (&x)[8]) {
  return make_uint4(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7]));
}
__device__ inline void store8(const View& to, int64_t row, int64_t i, const float (&x)[8]) {
  if (to.dtype == DType::kF32) {
    float4* p = reinterpret_cast<float4*>(reinterpret_cast<float*>(to.row(row)) + i);
    p[0] = make_float4(x[0], x[1], x[2], x[3]);
    p[1] = make_float4(x[4], x[5], x[6], x[7]);
  } else {
    *reinterpret_cast<uint4*>(reinterpret_cast<uint16_t*>(to.row(row)) + i) = pack8(x);
  }
}
__device__ inline void add8(const float* bias, int64_t i, float (&x)[8]) {
  if (bias == nullptr) return;
#pragma unroll
  for (int e = 0; e < 8; ++e) x[e] += bias[i + e];
}

// The norm of a head of which half / 8 neighbouring lanes have 16 values each, from i and i + half on. By a whole warp.
__device__ inline void norm_head(const HeadsEnd::Norm& norm, int i, int half, float (&a)[8], float (&b)[8]) {
  float squares = 0;
#pragma unroll
  for (int e = 0; e < 8; ++e) squares += a[e] * a[e] + b[e] * b[e];
  for (int d = 1; d < half / 8; d <<= 1) squares += __shfl_xor_sync(0xffffffffu, squares, d);
  if (norm.weight == nullptr) return;
  const float scale = inverse_root(squares, norm.width, norm.eps);
#pragma unroll
  for (int e = 0; e < 8; ++e) a[e] *= scale * norm.weight[i + e], b[e] *= scale * norm.weight[i + half + e];
}

// Items of a row: eight pairs of a head of q or k, or 16 values of v.
__host__ __device__ inline int head_items(const HeadsInput& args) {
  const HeadsArgs& to = args.to;
  return (args.q_heads + to.kv_heads) * (to.head_dim / 16) + to.kv_heads * to.kv.v_dim / 16;
}

// Item `item` of `items`, by a thread; kNorms: a head's threads are neighbours in a warp, and all of a warp come here.
// load(part, col, apart, a, b): eight values of q, k or v from `col` on, and from `col + apart`.
template <bool kNorms, class Load>
__device__ __forceinline__ void finish_item(const HeadsInput& args, int64_t row, int slot, int item, int items,
                                            Load&& load) {
  const HeadsArgs& to = args.to;
  const KvPlace& kv = to.kv;
  const int half = to.head_dim / 2, turned = (args.q_heads + to.kv_heads) * (half / 8);
  const bool turns = item < turned;
  int head = item / (half / 8);
  const int i = item % (half / 8) * 8;
  const bool is_q = head < args.q_heads;
  if (!is_q) head -= args.q_heads;
  const int part = !turns ? 2 : is_q ? 0 : 1;
  const int col = turns ? head * to.head_dim + i : (item - turned) * 16, apart = turns ? half : 8;
  const bool has = item < items && (is_q || slot >= 0);
  float a[8] = {}, b[8] = {};
  if (item < items) load(part, col, apart, a, b);
  if (has) {
    const float* bias = part == 2 ? args.v_bias : is_q ? args.q_bias : args.k_bias;
    add8(bias, col, a);
    add8(bias, col + apart, b);
  }
  if constexpr (kNorms) norm_head(!turns ? HeadsEnd::Norm{} : is_q ? args.q_norm : args.k_norm, i, half, a, b);
  if (!has) return;
  if (!turns) {
    const int of = col / kv.v_dim, at = col % kv.v_dim;
    kv_set_eight(kv.value(slot, of), at, a);
    kv_set_eight(kv.value(slot, of), at + 8, b);
    return;
  }
  float cos[8], sin[8];
  load8(to.table, row, i, cos);
  load8(to.table, row, i + half, sin);
#pragma unroll
  for (int e = 0; e < 8; ++e) rotate_pair(a[e], b[e], cos[e], sin[e]);
  if (is_q) {
    store8(to.q, row, col, a);
    store8(to.q, row, col + half, b);
  } else {
    kv_set_eight(kv.key(slot, head), i, a);
    kv_set_eight(kv.key(slot, head), i + half, b);
  }
}

}  // namespace ingot::cuda
