// What comes before and after the products of many rows, 16 bytes at a time: at thousands of rows these kernels move as
// many bytes as the products' own operands, so they have to run at the memory's speed. They take what a Llama has;
// rows_cuda.cu has the same for everything else.
#include "base/check.h"
#include "matmul/cuda/heads_item.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256;

__host__ __device__ inline bool is_aligned(const View& v, int each) {
  const int bytes = v.dtype == DType::kF32 ? 4 : 2;
  return v.data == nullptr || (reinterpret_cast<uintptr_t>(v.data) % 16 == 0 && v.stride * bytes % 16 == 0 &&
                               v.cols % each == 0 && v.dtype != DType::kF16);
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

// An item for each thread; kNorms: a head's threads are neighbours in a warp, and all of a warp come to the norm.
template <bool kNorms>
__global__ void __launch_bounds__(kThreads) linear_heads_vectors(const HeadsInput args) {
  let_next_begin();
  const int items = head_items(args), rounded = kNorms ? (items + 31) / 32 * 32 : items;
  const int64_t row = blockIdx.x;
  const int slot = args.to.slot[row];  // of the batch: there before the step's first kernel
  wait_for_inputs();
  const int threads = kThreads * static_cast<int>(gridDim.y);
  for (int item = static_cast<int>(blockIdx.y * kThreads + threadIdx.x); item < rounded; item += threads) {
    finish_item<kNorms>(args, row, slot, item, items,
                        [&](int part, int64_t col, int apart, float(&a)[8], float(&b)[8]) {
                          const View& from = part == 2 ? args.v : part == 0 ? args.q : args.k;
                          load8(from, row, col, a);
                          load8(from, row, col + apart, b);
                        });
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

bool heads_by_items(const DeviceProduct& product) {
  const HeadsArgs to = heads_args(product.heads);
  const HeadsEnd::Norm &q_norm = product.heads.q_norm, &k_norm = product.heads.k_norm;
  const bool norms = q_norm.weight != nullptr || k_norm.weight != nullptr;
  if (to.interleaved || (!norms && !heads_by_pairs(product))) return false;
  if (to.kv.dtype != DType::kBF16 && to.kv.dtype != DType::kFp8) return false;
  if (to.table.cols != to.head_dim || to.head_dim % 16 != 0 || to.kv.v_dim % 16 != 0) return false;
  const auto of_heads = [&](const HeadsEnd::Norm& n) { return n.weight == nullptr || n.width == to.head_dim; };
  if (norms && (32 % (to.head_dim / 16) != 0 || !of_heads(q_norm) || !of_heads(k_norm))) return false;
  return reinterpret_cast<uintptr_t>(to.kv.k) % 16 == 0 && reinterpret_cast<uintptr_t>(to.kv.v) % 16 == 0 &&
         to.kv.k_page % 16 == 0 && to.kv.v_page % 16 == 0 && is_aligned(to.q, 8) && is_aligned(to.table, 8);
}

bool finish_heads_by_vectors(const DeviceProduct& product, const View& q, const View& k, const View& v, int64_t rows,
                             const DeviceCtx& ctx) {
  if (!heads_by_items(product)) return false;
  for (const View* view : {&q, &k, &v})
    if (!is_aligned(*view, 8)) return false;
  const HeadsInput args = heads_input(product, q, k, v);
  const bool norms = args.q_norm.weight != nullptr || args.k_norm.weight != nullptr;
  // Few rows: an item for each thread, so that all are on their way together.
  launch(ctx, norms ? linear_heads_vectors<true> : linear_heads_vectors<false>,
         {dim3(rows, rows <= 256 ? ceil_div(head_items(args), kThreads) : 1), dim3(kThreads)}, args);
  return true;
}

}  // namespace ingot::cuda
