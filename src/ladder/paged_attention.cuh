// What the CUDA steps of prompt_attention and decode_attention share: their arguments as the product's kernels take
// them, and the product itself.
#pragma once

#include "ladder/paged_attention.h"
#include "ops/attention/cuda/attention_cuda_tile.cuh"
#include "ops/cuda/ops.h"

namespace ingot::cuda {

inline KvLayer layer_of(const PagedAttention& op) {
  KvLayer kv;
  kv.group = 0;
  kv.kv_heads = op.kv_heads;
  kv.k_dim = kv.v_dim = PagedAttention::kDim;
  kv.page_rows = op.page_rows;
  kv.dtype = DType::kBF16;
  kv.k = op.k.data;
  kv.v = op.v.data;
  return kv;
}

inline AttentionArgs paged_args(const PagedAttention& op) {
  const AttentionBatch at{op.seqs, op.rows};
  const auto* batch = reinterpret_cast<const int32_t*>(op.batch.data);
  AttentionArgs a;
  a.q = View(op.q);
  a.out = View(op.out);
  a.kv = kv_place(layer_of(op));
  a.kv_heads = op.kv_heads;
  a.group = op.heads / op.kv_heads;
  a.q_dim = PagedAttention::kDim;
  a.scale = op.scale();
  a.scale_log2 = op.scale() * kLog2E;
  a.counts = batch + at.counts();
  a.q_start = batch + at.q_start();
  a.kv_len = batch + at.kv_len();
  a.position = batch + at.position();
  a.seq = batch + at.seq();
  a.page_table = reinterpret_cast<const int32_t*>(op.table.data);
  a.pages_per_seq = static_cast<int>(op.table.cols);
  a.seqs = op.seqs;
  return a;
}

// ops/attention, as a step of the engine calls it.
inline void attend_by_product(const PagedAttention& op, const Ctx& ctx) {
  const AttentionArgs a = paged_args(op);
  Ctx own = ctx;
  own.batch.counts = a.counts;
  own.batch.q_start = a.q_start;
  own.batch.kv_len = a.kv_len;
  own.batch.position = a.position;
  own.batch.seq = a.seq;
  own.batch.groups[0].page_table = a.page_table;
  own.batch.pages_per_seq = a.pages_per_seq;
  own.seqs = op.seqs;
  own.q_rows = op.rows;
  Attention attention;
  attention.q = op.q;
  attention.out = op.out;
  attention.kv = layer_of(op);
  attention.heads = op.heads;
  attention.scale = op.scale();
  cuda::run(attention, own);
}

__device__ inline int slot_at(const AttentionArgs& a, int seq, int position) {
  const int page = a.page_table[static_cast<int64_t>(seq) * a.pages_per_seq + position / a.kv.page_rows];
  return page * a.kv.page_rows + position % a.kv.page_rows;
}
// The 16 bytes with columns [8 · piece, 8 · piece + 8) of a row of the cache.
__device__ inline const std::byte* piece_at(const std::byte* row, int slot, int piece) {
  return row + kv_piece(slot, piece) * 16;
}
__device__ inline float low_half(uint32_t word) { return __uint_as_float(word << 16); }
__device__ inline float high_half(uint32_t word) { return __uint_as_float(word & 0xffff0000u); }

// A block of kWarps for each row and head, a key for a warp at a time: a lane has four columns. The largest score and
// the sum of weights are kept up to date, so that keys and values are read once and no score is stored.
template <int kWarps>
__global__ void __launch_bounds__(32 * kWarps) attend_one_row(AttentionArgs a) {
  static_assert(32 * kWarps == PagedAttention::kDim);
  __shared__ float tops[kWarps], sums[kWarps], parts[kWarps * PagedAttention::kDim];
  let_next_begin();
  wait_for_inputs();
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y), kv_head = head / a.group;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int seq = a.seq[row], last = a.position[row];
  const auto load = [&](const std::byte* from, float(&x)[4]) {
    const uint2 u = *reinterpret_cast<const uint2*>(from + lane % 2 * 8);
    x[0] = low_half(u.x), x[1] = high_half(u.x), x[2] = low_half(u.y), x[3] = high_half(u.y);
  };
  float q[4], k[4], v[4], out[4] = {}, top = -INFINITY, sum = 0;
  load(a.q.row(row) + head * PagedAttention::kDim * 2 + lane / 2 * 16, q);
  for (int p = warp; p <= last; p += kWarps) {
    const int slot = slot_at(a, seq, p);
    load(piece_at(a.kv.k_row(slot, kv_head), slot, lane / 2), k);
    load(piece_at(a.kv.v_row(slot, kv_head), slot, lane / 2), v);
    const float score = warp_sum((q[0] * k[0] + q[1] * k[1]) + (q[2] * k[2] + q[3] * k[3])) * a.scale_log2;
    const Merge merge(top, score);
    top = merge.top;
    sum = merge(sum, 1.0f);
    for (int i = 0; i < 4; ++i) out[i] = merge(out[i], v[i]);
  }
  if (lane == 0) tops[warp] = top, sums[warp] = sum;
  for (int i = 0; i < 4; ++i) parts[warp * PagedAttention::kDim + 4 * lane + i] = out[i];
  __syncthreads();
  const int d = static_cast<int>(threadIdx.x);
  float all = parts[d];
  top = tops[0];
  sum = sums[0];
  for (int w = 1; w < kWarps; ++w) {
    const Merge merge(top, tops[w]);
    top = merge.top;
    sum = merge(sum, sums[w]);
    all = merge(all, parts[w * PagedAttention::kDim + d]);
  }
  a.out.set(row, head * PagedAttention::kDim + d, all / sum);
}

inline void attend_by_rows(const PagedAttention& op, const Ctx& ctx) {
  const int64_t rows = ctx.rows(op.q);
  if (rows == 0) return;
  launch(ctx, attend_one_row<4>, {dim3(rows, op.heads), dim3(128)}, paged_args(op));
}

}  // namespace ingot::cuda
