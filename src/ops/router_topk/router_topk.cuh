// Which experts a row meets, by one warp.
#pragma once

#include "cuda/activate.cuh"
#include "cuda/order.cuh"
#include "tensor/router_spec.h"

namespace ingot::cuda {

inline constexpr int kLanes = 32;
__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % kLanes; }

// The largest that is not taken, of equal ones the lowest index.
struct Best {
  float value = -INFINITY;
  int index = 0x7fffffff;

  // No number is the least of all: some expert is always found.
  __device__ void see(float v, int i) {
    if (isnan(v)) v = -INFINITY;
    if (v > value || (v == value && i < index)) value = v, index = i;
  }
  // Of all lanes.
  __device__ void of_warp() {
#pragma unroll
    for (int d = kLanes / 2; d > 0; d >>= 1) {
      const float other = __shfl_xor_sync(0xffffffffu, value, d);
      see(other, __shfl_xor_sync(0xffffffffu, index, d));
    }
  }
};

__device__ inline Best best_of(const float* keys, const uint8_t* taken, int n) {
  Best best;
  for (int e = lane_of_warp(); e < n; e += kLanes)
    if (taken[e] == 0) best.see(keys[e], e);
  best.of_warp();
  return best;
}

namespace detail {

// Bits of those a lane has, every 32nd, that are among the k best of n <= N · 32.
template <int N>
__device__ inline uint32_t best_by_lane(const float* keys, int n, int k) {
  const int lane = lane_of_warp();
  uint32_t key[N], mine = 0;  // key 0: none, or taken
#pragma unroll
  for (int b = 0; b < N; ++b) {
    const int e = lane + b * kLanes;
    key[b] = e < n ? ordered_bits(isnan(keys[e]) ? -INFINITY : keys[e]) : 0;
  }
  for (int i = 0; i < k; ++i) {
    uint32_t top = 0, at = 0;
#pragma unroll
    for (int b = 0; b < N; ++b)
      if (key[b] > top) top = key[b], at = static_cast<uint32_t>(b);
    const uint32_t best = __reduce_max_sync(0xffffffffu, top), index = at * kLanes + static_cast<uint32_t>(lane);
    if (__reduce_min_sync(0xffffffffu, top == best ? index : 0xffffffffu) != index) continue;
    mine |= 1u << at;
#pragma unroll
    for (int b = 0; b < N; ++b)
      if (static_cast<uint32_t>(b) == at) key[b] = 0;
  }
  return mine;
}

}  // namespace detail

// Marks the k best of n <= kMostExperts.
__device__ inline void take_best(const float* keys, uint8_t* taken, int n, int k) {
  static_assert(kMostExperts <= 32 * kLanes);
  const uint32_t mine = n <= 4 * kLanes   ? detail::best_by_lane<4>(keys, n, k)
                        : n <= 8 * kLanes ? detail::best_by_lane<8>(keys, n, k)
                                          : detail::best_by_lane<32>(keys, n, k);
  for (int e = lane_of_warp(), bit = 0; e < n; e += kLanes, ++bit) taken[e] = static_cast<uint8_t>(mine >> bit & 1);
  __syncwarp();
}

// Experts outside the best groups get minus infinity. `room` and `taken` are of as many values as there are experts.
__device__ inline void leave_groups(const RouterSpec& spec, float* keys, int n, float* room, uint8_t* taken) {
  const int size = n / spec.groups;
  for (int g = lane_of_warp(); g < spec.groups; g += kLanes) {
    float first = -INFINITY, second = -INFINITY;
    for (int e = g * size; e < (g + 1) * size; ++e) {
      second = fmaxf(second, fminf(first, keys[e]));
      first = fmaxf(first, keys[e]);
    }
    room[g] = spec.group_score == GroupScore::kBestTwo && size > 1 ? first + second : first;
  }
  __syncwarp();
  take_best(room, taken, spec.groups, spec.groups_used);
  for (int e = lane_of_warp(); e < n; e += kLanes)
    if (taken[e / size] == 0) keys[e] = -INFINITY;
  __syncwarp();
}

// The share of `chosen` among those near it that `taken` leaves.
__device__ inline float share_of(const float* logits, const uint8_t* taken, int n, const Best& chosen, float jitter) {
  float sum = 0;
  for (int e = lane_of_warp(); e < n; e += kLanes) {
    const float factor = fmaxf(fabsf(logits[e]), chosen.value);
    if (taken[e] != 0 || (chosen.value - logits[e]) / factor > 2 * jitter) continue;
    sum += expf(logits[e] - chosen.value);
  }
  return 1.0f / warp_sum(sum);
}

__device__ inline void choose_two(const float* logits, uint8_t* taken, int n, float jitter, int32_t* experts,
                                  float* weights) {
  for (int e = lane_of_warp(); e < n; e += kLanes) taken[e] = 0;
  __syncwarp();
  const Best first = best_of(logits, taken, n);
  const float first_share = share_of(logits, taken, n, first, jitter);
  __syncwarp();
  if (lane_of_warp() == 0) taken[first.index] = 1;
  __syncwarp();
  const Best second = best_of(logits, taken, n);
  const float second_share = share_of(logits, taken, n, second, jitter);
  if (lane_of_warp() != 0) return;
  const bool swap = first.index > second.index;
  experts[swap ? 1 : 0] = first.index;
  experts[swap ? 0 : 1] = second.index;
  weights[swap ? 1 : 0] = first_share;
  weights[swap ? 0 : 1] = second_share;
}

// Scores of all experts: softmax, or the sigmoid of each.
__device__ inline void make_scores(const float* logits, int n, RouterScore score, float* scores) {
  float largest = -INFINITY, sum = 0;
  for (int e = lane_of_warp(); e < n; e += kLanes) largest = fmaxf(largest, logits[e]);
  largest = warp_max(largest);
  for (int e = lane_of_warp(); e < n; e += kLanes) {
    const bool sigmoid = score == RouterScore::kSigmoid;
    scores[e] = sigmoid ? activate<ActivationKind::kSigmoid>(logits[e]) : expf(logits[e] - largest);
    sum += scores[e];
  }
  sum = warp_sum(sum);
  if (score == RouterScore::kSoftmax)
    for (int e = lane_of_warp(); e < n; e += kLanes) scores[e] /= sum;
}

struct RouterOut {
  int32_t* experts;
  float* weights;
  int64_t experts_stride, weights_stride;
  int used;
};

// Row t, by a warp. `room`: kRouterBytes of shared memory for each expert, the logits in front. `kept`: where the
// chosen are left in shared memory too, or null.
inline constexpr int kRouterBytes = 17;
__device__ inline void choose_experts(int n, int64_t t, const float* bias, const RouterOut& to, const RouterSpec& spec,
                                      float* logits, int32_t* kept = nullptr) {
  const int lane = lane_of_warp();
  float *scores = logits + n, *keys = scores + n, *room = keys + n;
  auto* taken = reinterpret_cast<uint8_t*>(room + n);
  int32_t* experts = to.experts + t * to.experts_stride;
  float* weights = to.weights + t * to.weights_stride;
  float bad = 0;
  for (int e = lane; e < n; e += kLanes)
    if (!isfinite(logits[e])) bad = 1;
  bad = warp_max(bad);
  if (bad > 0) {
    for (int j = lane; j < to.used; j += kLanes) {
      experts[j] = j, weights[j] = NAN;
      if (kept != nullptr) kept[j] = j;
    }
    return;
  }
  if (spec.score == RouterScore::kSparsemixer) {
    choose_two(logits, taken, n, spec.jitter, experts, weights);
    if (kept != nullptr && lane == 0) kept[0] = experts[0], kept[1] = experts[1];
    return;
  }
  make_scores(logits, n, spec.score, scores);
  __syncwarp();
  for (int e = lane; e < n; e += kLanes)
    keys[e] = bias != nullptr ? scores[e] + bias[e] : spec.groups > 1 ? scores[e] : logits[e];
  __syncwarp();
  if (spec.groups > 1) leave_groups(spec, keys, n, room, taken);
  take_best(keys, taken, n, to.used);
  int count = 0;
  for (int first = 0; first < n; first += kLanes) {
    const bool is_chosen = first + lane < n && taken[first + lane] != 0;
    const uint32_t chosen = __ballot_sync(0xffffffffu, is_chosen);
    const int j = count + __popc(chosen & ((1u << lane) - 1));
    if (is_chosen) experts[j] = first + lane, room[j] = scores[first + lane];
    if (is_chosen && kept != nullptr) kept[j] = first + lane;
    count += __popc(chosen);
  }
  __syncwarp();
  float sum = 0;
#pragma unroll 4
  for (int j = 0; j < to.used; ++j) sum += room[j];
  const float by = spec.renormalize ? fmaxf(sum, spec.least_sum) : 1.0f;
  for (int j = lane; j < to.used; j += kLanes) weights[j] = room[j] / by * spec.scale;
}

}  // namespace ingot::cuda
