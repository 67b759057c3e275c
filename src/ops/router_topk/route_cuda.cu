#include <algorithm>

#include "cuda/elements.cuh"
#include "matmul/cuda/experts/experts_list.cuh"
#include "ops/cuda/ops.h"
#include "ops/router_topk/route.cuh"

namespace ingot::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kOutputs = 4;  // experts of a block
constexpr int kRows = 8;     // rows of a block, one for each warp when experts are chosen

struct RouteArgs {
  RouteWork route;
  int tile;
  View logits;
  const float* bias;
  RouterOut to;
  RouterSpec spec;
  int rows;
  const int32_t* true_rows;
  uint32_t* tickets;  // of all blocks, then of each eight rows
};

// Whether this block is the last of `blocks` to come here; all that the others wrote before is seen then. Leaves the
// ticket at zero.
__device__ bool is_last(uint32_t* ticket, uint32_t blocks) {
  __shared__ uint32_t arrived;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    arrived = atomicAdd(ticket, 1u);
    if (arrived + 1 == blocks) *ticket = 0;
  }
  __syncthreads();
  const bool last = arrived + 1 == blocks;
  if (last) __threadfence();
  return last;
}

// What a warp adds up of its columns, for four rows: the products with each expert, and the squares.
struct RowSums {
  float dot[4][kOutputs] = {}, squares[4] = {};

  __device__ void add(int r, const float4& x, const float4& norm, bool normed, const float4 (&w)[kOutputs]) {
    float4 v = x;
    if (normed) {
      squares[r] += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
      v.x *= norm.x, v.y *= norm.y, v.z *= norm.z, v.w *= norm.w;
    }
#pragma unroll
    for (int e = 0; e < kOutputs; ++e) {
      dot[r][e] = __fmaf_rn(v.x, w[e].x, dot[r][e]);
      dot[r][e] = __fmaf_rn(v.y, w[e].y, dot[r][e]);
      dot[r][e] = __fmaf_rn(v.z, w[e].z, dot[r][e]);
      dot[r][e] = __fmaf_rn(v.w, w[e].w, dot[r][e]);
    }
  }
};

// The sums of this block's rows and experts to part[row][output][warp], squares as output kOutputs. The order over
// columns depends on their number alone.
__device__ void multiply_rows(const RouteArgs& args, int first_row, int rows, const float4* staged, float* part) {
  const RouteWork& route = args.route;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int fours = route.x.cols / 4;
  for (int begin = 0; begin < rows; begin += 4) {
    RowSums sums;
    for (int i = static_cast<int>(threadIdx.x); i < fours; i += kThreads) {
      float4 w[kOutputs], x[4];
#pragma unroll
      for (int r = 0; r < 4; ++r)
        x[r] = reinterpret_cast<const float4*>(route.x.row(first_row + min(begin + r, rows - 1)))[i];
#pragma unroll
      for (int e = 0; e < kOutputs; ++e) w[e] = staged[e * fours + i];
      const float4 norm = route.norm != nullptr ? staged[kOutputs * fours + i] : make_float4(1, 1, 1, 1);
#pragma unroll
      for (int r = 0; r < 4; ++r) sums.add(r, x[r], norm, route.norm != nullptr, w);
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (begin + r >= rows) break;
      float* to = part + (begin + r) * (kOutputs + 1) * kWarps + warp;
#pragma unroll
      for (int e = 0; e <= kOutputs; ++e) {
        const float sum = warp_sum(e < kOutputs ? sums.dot[r][e < kOutputs ? e : 0] : sums.squares[r]);
        if (lane == 0) to[e * kWarps] = sum;
      }
    }
  }
}

// This block's share of the normed rows' columns, by the threads from `from` on.
__device__ void write_normed(const RouteWork& route, int first_row, int rows, const float* scale, int from) {
  const int fours = route.x.cols / 4, each = (fours + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const int begin = static_cast<int>(blockIdx.x) * each, n = max(0, min(each, fours - begin));
  const int thread = static_cast<int>(threadIdx.x) - from;
  if (thread < 0 || (route.norm == nullptr && route.bf16.data == nullptr)) return;
  for (int i = thread; i < rows * n; i += kThreads - from) {
    const int r = i / n, at = begin + i % n;
    Four x = load_four(route.x.row(first_row + r), at, DType::kF32);
    if (route.norm != nullptr) {
      const Four w = load_four(reinterpret_cast<const std::byte*>(route.norm), at, DType::kF32);
#pragma unroll
      for (int k = 0; k < 4; ++k) x.v[k] = x.v[k] * scale[r] * w.v[k];
      store_four(route.normed.row(first_row + r), at, route.normed.dtype, x);
    }
    if (route.bf16.data != nullptr) store_four(route.bf16.row(first_row + r), at, DType::kBF16, x);
  }
}

// By the last block of its rows, all of whose logits are there; the last of those makes the list.
__device__ void choose_and_list(const RouteArgs& args, int first_row, int rows, int true_rows, std::byte* room) {
  __shared__ int32_t kept[kRows * kMostExpertsUsed];
  const RouteWork& route = args.route;
  const int experts = args.logits.cols, warp = static_cast<int>(threadIdx.x) / 32, used = args.to.used;
  if (warp < rows) {
    float* own = reinterpret_cast<float*>(room + warp * ((experts * kRouterBytes + 15) / 16 * 16));
    choose_experts(args.logits, first_row + warp, args.bias, args.to, args.spec, own, kept + warp * used);
  }
  if (route.list.place == nullptr) return;
  const auto own = [&](int row, int j) { return kept[row * used + j]; };
  if (args.rows == 1 && true_rows == 1) {
    __syncwarp();
    if (warp == 0) make_list_of_one(used, route.list, own);
    return;
  }
  const ExpertChoice choice{args.to.experts, args.to.experts_stride, used, experts, args.true_rows};
  __syncthreads();
  if (gridDim.y == 1) return make_list(choice, true_rows, args.tile, route.list, room, own);
  if (!is_last(args.tickets, gridDim.y)) return;
  // Other blocks have written them.
  const auto others = [&](int row, int j) {
    return __float_as_int(load_fresh(reinterpret_cast<const float*>(choice.experts + row * choice.stride + j)));
  };
  make_list(choice, true_rows, args.tile, route.list, room, others);
}

// A block for kOutputs experts and kRows rows. The last of its rows chooses their experts, the last of all makes the
// list.
__global__ void __launch_bounds__(kThreads) route_rows(const __grid_constant__ RouteArgs args) {
  const RouteWork& route = args.route;
  __shared__ float part[kRows * (kOutputs + 1) * kWarps];
  __shared__ float scale[kRows];
  std::byte* room = shared_memory<std::byte>();
  const int experts = args.logits.cols, cols = route.x.cols, fours = cols / 4;
  const int first_row = static_cast<int>(blockIdx.y) * kRows, rows = min(kRows, args.rows - first_row);
  const int first = static_cast<int>(blockIdx.x) * kOutputs, thread = static_cast<int>(threadIdx.x);
  let_next_begin();
  float4* staged = reinterpret_cast<float4*>(room);  // [kOutputs] rows of the router, then the norm's weight
  for (int i = thread; i < kOutputs * fours; i += kThreads) {
    const int e = first + i / fours;
    copy_async(staged + i, route.weight + int64_t{e < experts ? e : 0} * cols + i % fours * 4, e < experts);
  }
  for (int i = thread; i < fours && route.norm != nullptr; i += kThreads)
    copy_async(staged + kOutputs * fours + i, route.norm + i * 4);
  commit_copies();
  wait_for_inputs();
  const int true_rows = min(*args.true_rows, args.rows);
  copies_done<0>();
  __syncthreads();
  multiply_rows(args, first_row, rows, staged, part);
  __syncthreads();
  if (thread < rows) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += part[(thread * (kOutputs + 1) + kOutputs) * kWarps + w];
    scale[thread] = route.norm != nullptr ? inverse_root(sum, cols, route.eps) : 1.0f;
  }
  __syncthreads();
  if (thread < rows * kOutputs) {
    const int r = thread / kOutputs, e = first + thread % kOutputs;
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += part[(r * (kOutputs + 1) + thread % kOutputs) * kWarps + w];
    sum *= scale[r];
    if (e < experts) args.logits.set(first_row + r, e, route.bias != nullptr ? sum + route.bias[e] : sum);
  }
  // Others wait for the logits, and nobody in this kernel for the normed rows.
  const bool chooses = is_last(args.tickets + 1 + blockIdx.y, gridDim.x);
  const int choosing = chooses ? rows * 32 : 0;  // threads
  if (choosing < kThreads) write_normed(route, first_row, rows, scale, choosing);
  if (!chooses) return;
  choose_and_list(args, first_row, rows, true_rows, room);
  if (choosing == kThreads) write_normed(route, first_row, rows, scale, 0);
}

int64_t route_shared(int64_t experts, int64_t cols) {
  const int64_t choosing = kWarps * ((experts * kRouterBytes + 15) / 16 * 16);
  return std::max({(kOutputs + 1) * cols * 4, choosing, list_shared(static_cast<int>(experts))});
}

// A linear of f32 that has nothing fused in.
bool is_router(const Linear& op) {
  const Weight& w = op.parts[0].weight;
  return op.n_parts == 1 && w.format == Format::kF32 && w.scale == nullptr && !op.input && !op.residual &&
         !op.is_glu() && !op.heads && op.x.dtype == DType::kF32 && in_fours(op.x) && in_fours(w) && w.cols % 4 == 0;
}

bool same_rows(const Tensor& a, const Tensor& b) {
  return a.data == b.data && a.stride == b.stride && a.cols == b.cols && a.rows == b.rows;
}

}  // namespace

void run_route(const DeviceRoute& route, const View& logits, const float* bias, const RouterOut& to,
               const RouterSpec& spec, int64_t rows, const int32_t* true_rows, const DeviceCtx& ctx) {
  const int tile = route.tile_of ? route.tile_of(rows) : 1;
  const RouteArgs args{route, tile, logits, bias, to, spec, static_cast<int>(rows), true_rows, ctx.tickets};
  launch(ctx, route_rows,
         {dim3(ceil_div(logits.cols, kOutputs), ceil_div(rows, kRows)), dim3(kThreads),
          route_shared(logits.cols, route.x.cols)},
         args);
}

bool link(RmsNorm& norm, Linear& router, Prepare& p) {
  if (!is_router(router) || !same_rows(norm.out, router.x) || norm.width != norm.x.cols ||
      norm.weight.format != Format::kF32 || norm.x.dtype != DType::kF32 || !in_fours(norm.x) || !in_fours(norm.weight))
    return false;
  // Blocks read x while others write: nothing may lie where it does.
  if (overlaps(norm.x, norm.out, p.limits.rows) || overlaps(norm.x, router.parts[0].out, p.limits.rows)) return false;
  auto route = std::make_shared<DeviceRoute>();
  route->x = View(norm.x);
  route->norm = reinterpret_cast<const float*>(norm.weight.data);
  route->eps = norm.eps;
  route->normed = View(norm.out);
  norm.route = router.route = route;
  return true;
}

bool link(Linear& router, RouterTopk& topk, Prepare& p) {
  // With more rows logits are summed in another order.
  if (!is_router(router) || !same_rows(router.parts[0].out, topk.logits) || p.batch_invariant) return false;
  if (route_shared(topk.logits.cols, router.x.cols) > 160 << 10) return false;
  if (router.route != nullptr) {
    Tensor x = router.x;
    x.data = router.route->x.data;
    x.stride = router.route->x.stride;
    if (overlaps(x, topk.experts, p.limits.rows) || overlaps(x, topk.weights, p.limits.rows)) return false;
  } else {
    router.route = std::make_shared<DeviceRoute>();
    router.route->x = View(router.x);
    if (overlaps(router.x, topk.experts, p.limits.rows) || overlaps(router.x, topk.weights, p.limits.rows))
      return false;
  }
  DeviceRoute& route = *router.route;
  route.weight = reinterpret_cast<const float*>(router.parts[0].weight.data);
  route.bias = reinterpret_cast<const float*>(router.parts[0].bias.data);
  route.rows = kRouteRows;
  topk.route = router.route;
  return true;
}

}  // namespace ingot::cuda
