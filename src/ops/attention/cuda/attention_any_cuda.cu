// Attention for any head size and any type of the cache, in f32: a block takes one row and head. Its warps take 32 keys
// in turn: a lane scores one key, then the lanes share the columns of the values.
#include "ops/attention/cuda/attention_cuda_tile.cuh"

namespace ingot::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kColumns = 256;  // of the values, of one block
constexpr int kOwn = kColumns / 32;

// Sum of q · key over one row of the cache.
template <DType dtype>
__device__ float score_row(const KvRow& key, const float* q) {
  const int dim = key.dim;
  const std::byte* row = key.at;
  float sum = 0;
  if (dtype == DType::kF32 && dim % 4 == 0) {
    for (int i = 0; i < dim; i += 4) {
      const float4 x = *reinterpret_cast<const float4*>(row + 4 * i);
      sum = fmaf(x.x, q[i], sum);
      sum = fmaf(x.y, q[i + 1], sum);
      sum = fmaf(x.z, q[i + 2], sum);
      sum = fmaf(x.w, q[i + 3], sum);
    }
  } else if ((dtype == DType::kF16 || dtype == DType::kBF16) && dim % 8 == 0) {
    for (int i = 0; i < dim; i += 8) {
      const uint4 x = *reinterpret_cast<const uint4*>(row + 2 * kv_index(dtype, dim, key.slot, i));
      const uint32_t pairs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const uint16_t bits = static_cast<uint16_t>(pairs[j / 2] >> (j % 2 * 16));
        sum = fmaf(dtype == DType::kBF16 ? bf16_value(bits) : f16_value(bits), q[i + j], sum);
      }
    }
  } else {
    for (int i = 0; i < dim; ++i) sum = fmaf(kv_get(key, dtype, i), q[i], sum);
  }
  return sum;
}

// Of a latent cache: the value, then the rotary part, which has 16 bits at least.
template <DType dtype>
__device__ float score_slot(const AttentionArgs& a, int slot, int kv_head, const float* q) {
  if (!a.latent) return score_row<dtype>(a.kv.key(slot, kv_head), q);
  constexpr DType kRotary = kv_is_coded(dtype) ? DType::kF16 : dtype;
  return score_row<dtype>(a.kv.value(slot, kv_head), q) + score_row<kRotary>(a.kv.key(slot, kv_head), q + a.kv.v_dim);
}

// One warp's keys of a row.
struct WarpResult {
  float top = -INFINITY, sum = 0;
  float x[kOwn] = {};  // columns lane + 32j of the block's
};

// 32 keys from `first` on; the row sees [lowest, last].
template <DType dtype>
__device__ void attend_32(const AttentionArgs& a, WarpResult& r, const int32_t* table, int kv_head, const float* q,
                          int first, int lowest, int last, int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, p = first + lane;
  const bool seen = p >= lowest && p <= last;
  const int slot = seen ? table[p / a.kv.page_rows] * a.kv.page_rows + p % a.kv.page_rows : 0;
  float score = -INFINITY;
  if (seen) {
    const float dot = score_slot<dtype>(a, slot, kv_head, q);
    score = a.softcap > 0 ? capped(a, dot) : dot * a.scale_log2;
  }
  const float top = fmaxf(r.top, warp_max(score));
  const float base = top == -INFINITY ? 0.0f : top;
  const float factor = fast_exp2(r.top - base), weight = fast_exp2(score - base);
  r.top = top;
  r.sum = fmaf(r.sum, factor, warp_sum(weight));
#pragma unroll
  for (int j = 0; j < kOwn; ++j) r.x[j] *= factor;
  const int columns = a.kv.v_dim - column;
#pragma unroll 2
  for (int i = max(0, lowest - first); i < min(32, last + 1 - first); ++i) {
    const float w = __shfl_sync(0xffffffffu, weight, i);
    const int s = __shfl_sync(0xffffffffu, slot, i);
    const KvRow row = a.kv.value(s, kv_head);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int c = lane + 32 * j;
      if (c < columns) r.x[j] = fmaf(w, kv_get(row, dtype, column + c), r.x[j]);
    }
  }
}

template <DType dtype>
__global__ void __launch_bounds__(32 * kWarps, 3) attend_any_kernel(AttentionArgs a) {
  __shared__ float tops[kWarps];
  __shared__ float sums[kWarps];
  __shared__ float outs[kWarps * kColumns];
  let_next_begin();
  wait_for_inputs();
  const int heads = a.kv_heads * a.group;
  const int64_t t = blockIdx.x / static_cast<unsigned>(heads);
  const int head = static_cast<int>(blockIdx.x % static_cast<unsigned>(heads)), kv_head = head / a.group;
  if (t >= a.counts[0]) return;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  float* q = shared_memory<float>();
  for (int i = static_cast<int>(threadIdx.x); i < a.q_dim; i += 32 * kWarps)
    q[i] = a.q.get(t, static_cast<int64_t>(head) * a.q_dim + i);
  __syncthreads();
  const int32_t* table = a.page_table + static_cast<int64_t>(a.seq[t]) * a.pages_per_seq;
  const int last = a.position[t];
  const int lowest = a.chunked ? last / a.window * a.window : a.window > 0 ? max(0, last - a.window + 1) : 0;
  const int column = static_cast<int>(blockIdx.y) * kColumns;
  WarpResult r;
  for (int first = lowest / 32 * 32 + 32 * warp; first <= last; first += 32 * kWarps)
    attend_32<dtype>(a, r, table, kv_head, q, first, lowest, last, column);
  if (lane == 0) {
    tops[warp] = r.top;
    sums[warp] = r.sum;
  }
  for (int j = 0; j < kOwn; ++j) outs[warp * kColumns + lane + 32 * j] = r.x[j];
  __syncthreads();
  float top = -INFINITY, sum = 0;
  for (int w = 0; w < kWarps; ++w) top = fmaxf(top, tops[w]);
  for (int w = 0; w < kWarps; ++w) sum = fmaf(sums[w], fast_exp2(tops[w] - top), sum);
  const float factor = last_factor(a, head, top, sum);
  for (int c = static_cast<int>(threadIdx.x); c < min(kColumns, a.kv.v_dim - column); c += 32 * kWarps) {
    float x = 0;
    for (int w = 0; w < kWarps; ++w) x = fmaf(outs[w * kColumns + c], fast_exp2(tops[w] - top), x);
    a.out.set(t, static_cast<int64_t>(head) * a.kv.v_dim + column + c, x * factor);
  }
}

}  // namespace

void attend_any(const Ctx& ctx, const AttentionArgs& a, int64_t rows) {
  const Launch shape = {
      dim3(static_cast<unsigned>(rows * a.kv_heads * a.group), static_cast<unsigned>(ceil_div(a.kv.v_dim, kColumns))),
      dim3(32 * kWarps), 16 * ceil_div(a.q_dim, 4)};  // whole 16 bytes: the compiler reads up to four at a time
  switch (a.kv.dtype) {
    case DType::kF32:
      return launch(ctx, attend_any_kernel<DType::kF32>, shape, a);
    case DType::kF16:
      return launch(ctx, attend_any_kernel<DType::kF16>, shape, a);
    case DType::kBF16:
      return launch(ctx, attend_any_kernel<DType::kBF16>, shape, a);
    case DType::kFp8:
      return launch(ctx, attend_any_kernel<DType::kFp8>, shape, a);
    default:
      CHECK(a.kv.dtype == DType::kQ8_0, "a cache of {}", dtype_name(a.kv.dtype));
      return launch(ctx, attend_any_kernel<DType::kQ8_0>, shape, a);
  }
}

}  // namespace ingot::cuda
