// A key of expert and index for each place, and a sort of all its 32 bits: four passes where one would do.
#include "ladder/cuda_step.cuh"
#include "ladder/route/route.h"
#include "ladder/sort/sort.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kThreads = 256, kIndexBits = 24;

__global__ void make_keys(const uint32_t* experts, int64_t n, uint32_t* keys) {
  let_next_begin();
  wait_for_inputs();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) keys[i] = experts[i] << kIndexBits | static_cast<uint32_t>(i);
}

// A thread for each key and one behind them: where the expert changes, those up to it begin.
__global__ void take_apart(const uint32_t* keys, int64_t n, uint32_t count, uint32_t* place, uint32_t* first) {
  let_next_begin();
  wait_for_inputs();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i > n) return;
  if (i < n) place[i] = keys[i] & ((1u << kIndexBits) - 1);
  const uint32_t last = i < n ? keys[i] >> kIndexBits : count;
  for (uint32_t e = i > 0 ? (keys[i - 1] >> kIndexBits) + 1 : 0; e <= last; ++e) first[e] = static_cast<uint32_t>(i);
}

}  // namespace

void run(const Route& op, Ctx& ctx) {
  const int64_t n = op.experts.cols, room = (n * 4 / 256 + 1) * 256;
  auto* keys = reinterpret_cast<uint32_t*>(ctx.scratch);
  auto* sorted = reinterpret_cast<uint32_t*>(ctx.scratch + room);
  if (n > 0)
    launch(ctx, make_keys, {ceil_div(n, kThreads), kThreads}, reinterpret_cast<const uint32_t*>(op.experts.data), n,
           keys);
  Sort sort;
  sort.keys = ladder::fixed_tensor(reinterpret_cast<std::byte*>(keys), 1, n);
  sort.out = ladder::fixed_tensor(reinterpret_cast<std::byte*>(sorted), 1, n);
  DeviceCtx rest = ctx;
  rest.scratch += 2 * room;
  sort_parts::sort<8, sort_parts::ByVotes<8>, true>(sort, rest);
  launch(ctx, take_apart, {ceil_div(n + 1, kThreads), kThreads}, sorted, n, op.count,
         reinterpret_cast<uint32_t*>(op.place.data), reinterpret_cast<uint32_t*>(op.first.data));
}

}  // namespace ingot::cuda::INGOT_STEP
