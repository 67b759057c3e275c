// What comes before and after the products of many rows, 16 bytes at a time: at thousands of rows these kernels move as
// many bytes as the products' own operands, so they have to run at the memory's speed. They take what a Llama has;
// rows_cuda.cu has the same for everything else.
#include "base/check.h"
#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256;

__host__ __device__ inline bool is_aligned(const View& v, int each) {
  const int bytes = v.dtype == DType::kF32 ? 4 : 2;
  return v.data == nullptr || (reinterpret_cast<uintptr_t>(v.data) % 16 == 0 && v.stride * bytes % 16 == 0 &&
                               v.cols % each == 0 && v.dtype != DType::kF16);
}

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

// The last rows first: the product before has just written them, so they are still in the L2 cache, and the
// product behind begins with the first.
__device__ inline int64_t last_first(unsigned block, unsigned blocks) { return blocks - 1 - block; }

// A row in the registers of a block: kEach times eight columns a thread.
template <int kEach>
__global__ void __launch_bounds__(kThreads)
    linear_norm_vectors(const InputArgs in, const int32_t* gather, const View out) {
  __shared__ float room[32];
  let_next_begin();
  const int64_t row = last_first(blockIdx.x, gridDim.x);
  const int cols = in.x.cols, first = static_cast<int>(threadIdx.x) * 8;
  // Weights are there before the previous kernel has ended; read after the sum they would cost another way to memory.
  float weight[kEach][8] = {};
#pragma unroll
  for (int j = 0; j < kEach; ++j)
    if (in.weight != nullptr && first + j * kThreads * 8 < cols) load8(in.weight + first + j * kThreads * 8, weight[j]);
  wait_for_inputs();
  const int64_t from_row = gather != nullptr ? gather[row] : row;
  float x[kEach][8] = {};
#pragma unroll
  for (int j = 0; j < kEach; ++j)
    if (first + j * kThreads * 8 < cols) load8(in.x, from_row, first + j * kThreads * 8, x[j]);
  if (in.add.data != nullptr) {
    float add[kEach][8] = {};
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (first + j * kThreads * 8 < cols) load8(in.add, row, first + j * kThreads * 8, add[j]);
#pragma unroll
      for (int e = 0; e < 8; ++e) squares += add[j][e] * add[j][e];
    }
    float scale = 1;
    if (in.add_norm != nullptr) scale = inverse_root(block_sum(squares, room), cols, in.add_eps);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = first + j * kThreads * 8;
      if (i >= cols) continue;
#pragma unroll
      for (int e = 0; e < 8; ++e)
        x[j][e] += in.add_norm != nullptr ? add[j][e] * scale * in.add_norm[i + e] : add[j][e];
      store8(in.sum, row, i, x[j]);
    }
  }
  float scale = 1;
  if (in.weight != nullptr) {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j)
#pragma unroll
      for (int e = 0; e < 8; ++e) squares += x[j][e] * x[j][e];
    scale = inverse_root(block_sum(squares, room), cols, in.eps);
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int i = first + j * kThreads * 8;
    if (i >= out.cols) continue;  // columns beyond x's are zeros in x[j]
    if (in.weight != nullptr && i < cols) {
#pragma unroll
      for (int e = 0; e < 8; ++e) x[j][e] = x[j][e] * scale * weight[j][e];
    }
    store8(out, row, i, x[j]);
  }
}

__global__ void __launch_bounds__(kThreads)
    linear_glu_vectors(const View gate, const View up, const float* gate_bias, const float* up_bias,
                       ActivationKind kind, const View out) {
  let_next_begin();
  wait_for_inputs();
  const int64_t row = last_first(blockIdx.y, gridDim.y);
  const int i = (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)) * 8;
  if (i >= out.cols) return;
  float a[8], b[8];
  load8(gate, row, i, a);
  load8(up, row, i, b);
  add8(gate_bias, i, a);
  add8(up_bias, i, b);
#pragma unroll
  for (int e = 0; e < 8; ++e) a[e] = activated(kind, a[e]) * b[e];
  store8(out, row, i, a);
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

// A thread turns eight pairs of a head of q or k, or moves 16 values of v. kNorms: a head's threads are neighbours in a
// warp, and all of a warp come to the norm.
template <bool kNorms>
__global__ void __launch_bounds__(kThreads) linear_heads_vectors(const HeadsInput args) {
  let_next_begin();
  const HeadsArgs& to = args.to;
  const KvPlace& kv = to.kv;
  const int half = to.head_dim / 2, turned = (args.q_heads + to.kv_heads) * (half / 8);
  const int items = turned + to.kv_heads * kv.v_dim / 16, rounded = kNorms ? (items + 31) / 32 * 32 : items;
  const int64_t row = blockIdx.x;
  const int slot = to.slot[row];  // of the batch: there before the step's first kernel
  wait_for_inputs();
  const int threads = kThreads * static_cast<int>(gridDim.y);
  for (int item = static_cast<int>(blockIdx.y * kThreads + threadIdx.x); item < rounded; item += threads) {
    const bool turns = item < turned;
    int head = item / (half / 8);
    const int i = item % (half / 8) * 8;
    const bool is_q = head < args.q_heads;
    if (!is_q) head -= args.q_heads;
    const int col = turns ? head * to.head_dim + i : (item - turned) * 16, apart = turns ? half : 8;
    const bool has = item < items && (is_q || slot >= 0);
    float a[8] = {}, b[8] = {};
    if (has) {
      const View& from = !turns ? args.v : is_q ? args.q : args.k;
      const float* bias = !turns ? args.v_bias : is_q ? args.q_bias : args.k_bias;
      load8(from, row, col, a);
      load8(from, row, col + apart, b);
      add8(bias, col, a);
      add8(bias, col + apart, b);
    }
    if constexpr (kNorms) norm_head(!turns ? HeadsEnd::Norm{} : is_q ? args.q_norm : args.k_norm, i, half, a, b);
    if (!has) continue;
    if (!turns) {
      const int of = col / kv.v_dim, at = col % kv.v_dim;
      kv_set_eight(kv.value(slot, of), at, a);
      kv_set_eight(kv.value(slot, of), at + 8, b);
      continue;
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
}

}  // namespace

bool make_rows_by_vectors(const InputArgs& in, const int32_t* gather, int64_t rows, const View& out,
                          const DeviceCtx& ctx) {
  for (const View* v : {&in.x, &in.add, &in.sum, &out})
    if (!is_aligned(*v, 8)) return false;
  if (reinterpret_cast<uintptr_t>(in.weight) % 16 != 0) return false;
  const int64_t each = ceil_div(out.cols, kThreads * 8);
  const Launch shape{dim3(rows), dim3(kThreads)};
  if (each <= 1) {
    launch(ctx, linear_norm_vectors<1>, shape, in, gather, out);
  } else if (each <= 2) {
    launch(ctx, linear_norm_vectors<2>, shape, in, gather, out);
  } else if (each <= 4) {
    launch(ctx, linear_norm_vectors<4>, shape, in, gather, out);
  } else {
    return false;
  }
  return true;
}

bool finish_glu_by_vectors(const DeviceProduct& product, const View& gate, const View& up, int64_t rows,
                           const DeviceCtx& ctx) {
  const PartOut a = part_out(product, 0), b = part_out(product, 1);
  if (!is_aligned(gate, 8) || !is_aligned(up, 8) || !is_aligned(a.out, 8) || rows >= 65536) return false;
  launch(ctx, linear_glu_vectors, {dim3(ceil_div(a.out.cols, kThreads * 8), rows), dim3(kThreads)}, gate, up, a.bias,
         b.bias, product.glu, a.out);
  return true;
}

bool finish_heads_by_vectors(const DeviceProduct& product, const View& q, const View& k, const View& v, int64_t rows,
                             const DeviceCtx& ctx) {
  const HeadsArgs to = heads_args(product.heads);
  const HeadsEnd::Norm &q_norm = product.heads.q_norm, &k_norm = product.heads.k_norm;
  const bool norms = q_norm.weight != nullptr || k_norm.weight != nullptr;
  if (to.interleaved || (!norms && !heads_by_pairs(product))) return false;
  if (to.kv.dtype != DType::kBF16 && to.kv.dtype != DType::kFp8) return false;
  if (to.table.cols != to.head_dim || to.head_dim % 16 != 0 || to.kv.v_dim % 16 != 0) return false;
  const auto of_heads = [&](const HeadsEnd::Norm& n) { return n.weight == nullptr || n.width == to.head_dim; };
  if (norms && (32 % (to.head_dim / 16) != 0 || !of_heads(q_norm) || !of_heads(k_norm))) return false;
  if (reinterpret_cast<uintptr_t>(to.kv.k) % 16 != 0 || reinterpret_cast<uintptr_t>(to.kv.v) % 16 != 0 ||
      to.kv.k_page % 16 != 0 || to.kv.v_page % 16 != 0)
    return false;
  for (const View* view : {&q, &k, &v, &to.q, &to.table})
    if (!is_aligned(*view, 8)) return false;
  const HeadsInput args = heads_input(product, q, k, v);
  // Few rows: an item for each thread, so that all are on their way together.
  const int64_t items = (int64_t{args.q_heads} + to.kv_heads) * (to.head_dim / 16) + to.kv_heads * to.kv.v_dim / 16;
  launch(ctx, norms ? linear_heads_vectors<true> : linear_heads_vectors<false>,
         {dim3(rows, rows <= 256 ? ceil_div(items, kThreads) : 1), dim3(kThreads)}, args);
  return true;
}

}  // namespace ingot::cuda
