#include "base/check.h"
#include "cuda/activate.cuh"
#include "ops/cuda/ops.h"
#include "ops/router_topk/router_topk.h"

namespace ingot::cuda {
namespace {

constexpr int kLanes = 32;  // a warp is the block of a row

// The largest that is not taken, of equal ones the lowest index.
struct Best {
  float value = -INFINITY;
  int index = 0x7fffffff;

  // No number is the least of all: some expert is always found.
  __device__ void see(float v, int i) {
    if (isnan(v)) v = -INFINITY;
    if (v > value || (v == value && i < index)) value = v, index = i;
  }
};

__device__ Best best_of(const float* keys, const uint8_t* taken, int n) {
  Best best;
  for (int e = static_cast<int>(threadIdx.x); e < n; e += kLanes)
    if (taken[e] == 0) best.see(keys[e], e);
#pragma unroll
  for (int d = kLanes / 2; d > 0; d >>= 1) {
    const float value = __shfl_xor_sync(0xffffffffu, best.value, d);
    best.see(value, __shfl_xor_sync(0xffffffffu, best.index, d));
  }
  return best;
}

// Marks the k best.
__device__ void take_best(const float* keys, uint8_t* taken, int n, int k) {
  for (int e = static_cast<int>(threadIdx.x); e < n; e += kLanes) taken[e] = 0;
  __syncthreads();
  for (int i = 0; i < k; ++i) {
    const int best = best_of(keys, taken, n).index;
    __syncthreads();
    if (threadIdx.x == 0) taken[best] = 1;
    __syncthreads();
  }
}

// Experts outside the best groups get minus infinity. `room` and `taken` are of as many values as there are experts.
__device__ void leave_groups(const RouterSpec& spec, float* keys, int n, float* room, uint8_t* taken) {
  const int size = n / spec.groups;
  for (int g = static_cast<int>(threadIdx.x); g < spec.groups; g += kLanes) {
    float first = -INFINITY, second = -INFINITY;
    for (int e = g * size; e < (g + 1) * size; ++e) {
      second = fmaxf(second, fminf(first, keys[e]));
      first = fmaxf(first, keys[e]);
    }
    room[g] = spec.group_score == GroupScore::kBestTwo && size > 1 ? first + second : first;
  }
  __syncthreads();
  take_best(room, taken, spec.groups, spec.groups_used);
  for (int e = static_cast<int>(threadIdx.x); e < n; e += kLanes)
    if (taken[e / size] == 0) keys[e] = -INFINITY;
  __syncthreads();
}

// The share of `chosen` among those near it that `taken` leaves.
__device__ float share_of(const float* logits, const uint8_t* taken, int n, const Best& chosen, float jitter) {
  float sum = 0;
  for (int e = static_cast<int>(threadIdx.x); e < n; e += kLanes) {
    const float factor = fmaxf(fabsf(logits[e]), chosen.value);
    if (taken[e] != 0 || (chosen.value - logits[e]) / factor > 2 * jitter) continue;
    sum += expf(logits[e] - chosen.value);
  }
  return 1.0f / warp_sum(sum);
}

__device__ void choose_two(const float* logits, uint8_t* taken, int n, float jitter, int32_t* experts, float* weights) {
  for (int e = static_cast<int>(threadIdx.x); e < n; e += kLanes) taken[e] = 0;
  __syncthreads();
  const Best first = best_of(logits, taken, n);
  const float first_share = share_of(logits, taken, n, first, jitter);
  __syncthreads();
  if (threadIdx.x == 0) taken[first.index] = 1;
  __syncthreads();
  const Best second = best_of(logits, taken, n);
  const float second_share = share_of(logits, taken, n, second, jitter);
  if (threadIdx.x != 0) return;
  const bool swap = first.index > second.index;
  experts[swap ? 1 : 0] = first.index;
  experts[swap ? 0 : 1] = second.index;
  weights[swap ? 1 : 0] = first_share;
  weights[swap ? 0 : 1] = second_share;
}

// Scores of all experts: softmax, or the sigmoid of each.
__device__ void make_scores(const float* logits, int n, RouterScore score, float* scores) {
  float largest = -INFINITY, sum = 0;
  for (int e = static_cast<int>(threadIdx.x); e < n; e += kLanes) largest = fmaxf(largest, logits[e]);
  largest = warp_max(largest);
  for (int e = static_cast<int>(threadIdx.x); e < n; e += kLanes) {
    const bool sigmoid = score == RouterScore::kSigmoid;
    scores[e] = sigmoid ? activate<ActivationKind::kSigmoid>(logits[e]) : expf(logits[e] - largest);
    sum += scores[e];
  }
  sum = warp_sum(sum);
  if (score == RouterScore::kSoftmax)
    for (int e = static_cast<int>(threadIdx.x); e < n; e += kLanes) scores[e] /= sum;
}

struct RouterOut {
  int32_t* experts;
  float* weights;
  int64_t experts_stride, weights_stride;
  int used;
};

__global__ void router(View x, const float* bias, RouterOut to, RouterSpec spec) {
  const int n = x.cols, lane = static_cast<int>(threadIdx.x);
  float* logits = shared_memory<float>();
  float *scores = logits + n, *keys = scores + n, *room = keys + n;
  auto* taken = reinterpret_cast<uint8_t*>(room + n);
  let_next_begin();
  wait_for_inputs();
  const int64_t t = blockIdx.x;
  int32_t* experts = to.experts + t * to.experts_stride;
  float* weights = to.weights + t * to.weights_stride;
  float bad = 0;
  for (int e = lane; e < n; e += kLanes) {
    logits[e] = x.get(t, e);
    if (!isfinite(logits[e])) bad = 1;
  }
  bad = warp_max(bad);
  __syncthreads();
  if (bad > 0) {
    for (int j = lane; j < to.used; j += kLanes) experts[j] = j, weights[j] = NAN;
    return;
  }
  if (spec.score == RouterScore::kSparsemixer) return choose_two(logits, taken, n, spec.jitter, experts, weights);
  make_scores(logits, n, spec.score, scores);
  __syncthreads();
  for (int e = lane; e < n; e += kLanes)
    keys[e] = bias != nullptr ? scores[e] + bias[e] : spec.groups > 1 ? scores[e] : logits[e];
  __syncthreads();
  if (spec.groups > 1) leave_groups(spec, keys, n, room, taken);
  take_best(keys, taken, n, to.used);
  if (lane != 0) return;
  float sum = 0;
  int j = 0;
  for (int e = 0; e < n; ++e) {
    if (taken[e] == 0) continue;
    experts[j] = e;
    sum += weights[j++] = scores[e];
  }
  const float by = spec.renormalize ? fmaxf(sum, spec.least_sum) : 1.0f;
  for (j = 0; j < to.used; ++j) weights[j] = weights[j] / by * spec.scale;
}

}  // namespace

void run(const RouterTopk& op, Ctx& ctx) {
  const int64_t n = op.logits.cols, k = op.experts.cols, rows = ctx.rows(op.logits);
  CHECK(n <= kMostExperts && k <= n, "{} of {} experts", k, n);
  if (rows == 0) return;
  const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(kLanes), n * 17};
  const RouterOut to{op.experts.row<int32_t>(0), op.weights.f32(0), op.experts.stride, op.weights.stride,
                     static_cast<int>(k)};
  launch(ctx, router, shape, View(op.logits), reinterpret_cast<const float*>(op.bias.data), to, op.spec);
}

}  // namespace ingot::cuda
