// The definition, head by head: all scores of a row go to memory, then their weights, then the values are summed up.
#include "ladder/cuda_step.cuh"
#include "ladder/paged_attention.cuh"
#include "ladder/prompt_attention/prompt_attention.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kDim = PagedAttention::kDim;

// A block for each row: a thread for a key, later for a column.
__global__ void __launch_bounds__(kDim) attend(AttentionArgs a, int head, float* all_scores, int64_t keys) {
  __shared__ float q[kDim], room[32];
  let_next_begin();
  wait_for_inputs();
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x), kv_head = head / a.group;
  const int seq = a.seq[row], last = a.position[row];
  float* scores = all_scores + row * keys;
  q[thread] = a.q.get(row, head * kDim + thread) * a.scale;
  __syncthreads();
  float largest = -INFINITY;
  for (int p = thread; p <= last; p += kDim) {
    const int slot = slot_at(a, seq, p);
    const std::byte* k = a.kv.k_row(slot, kv_head);
    float score = 0;
    for (int piece = 0; piece < kDim / 8; ++piece) {
      const uint4 u = *reinterpret_cast<const uint4*>(piece_at(k, slot, piece));
      const uint32_t words[4] = {u.x, u.y, u.z, u.w};
      for (int i = 0; i < 4; ++i)
        score += q[8 * piece + 2 * i] * low_half(words[i]) + q[8 * piece + 2 * i + 1] * high_half(words[i]);
    }
    scores[p] = score;
    largest = fmaxf(largest, score);
  }
  largest = block_max(largest, room);
  float sum = 0;
  for (int p = thread; p <= last; p += kDim) sum += scores[p] = expf(scores[p] - largest);
  sum = block_sum(sum, room);  // and a barrier: the weights are there
  float out = 0;
  for (int p = 0; p <= last; ++p) {
    const int slot = slot_at(a, seq, p);
    const std::byte* piece = piece_at(a.kv.v_row(slot, kv_head), slot, thread / 8);
    out += scores[p] * load_value(piece, thread % 8, DType::kBF16);
  }
  a.out.set(row, head * kDim + thread, out / sum);
}

}  // namespace

void run(const PromptAttention& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.q);
  if (rows == 0) return;
  for (int head = 0; head < op.heads; ++head)
    launch(ctx, attend, {dim3(rows), dim3(kDim)}, paged_args(op), head, reinterpret_cast<float*>(ctx.scratch),
           int64_t{op.past + op.rows});
}

}  // namespace ingot::cuda::INGOT_STEP
