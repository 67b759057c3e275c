#include <algorithm>
#include <cstddef>

#include "cuda/elements.cuh"
#include "matmul/cuda/experts/experts_list.cuh"
#include "ops/cuda/ops.h"
#include "ops/router_topk/route.cuh"

namespace ingot::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kOutputs = 4;  // experts of a block
constexpr int kRows = 8;     // rows of a block, one for each warp when experts are chosen
constexpr int kSums = 8;     // places for the sums of a row: kOutputs products, the squares

struct RouteArgs {
  RouteWork route;
  int tile;
  View logits;
  const float* bias;
  RouterOut to;
  RouterSpec spec;
  int rows;
  const int32_t* true_rows;
  float* handed;  // [rows][experts in fours] logits, then [rows][used in fours] the chosen
};

__host__ __device__ constexpr int in_whole_fours(int n) { return (n + 3) / 4 * 4; }

// What is in front of the room that the router's weights and then the choice have.
struct RouteShared {
  float part[kRows * kSums * kWarps];  // [row][output][warp]
  float scale[kRows];
  int32_t is_last[2];  // to begin: of these rows, of all
  int32_t unused[2];
  int32_t kept[1];  // [rows][used] the chosen

  __device__ std::byte* room(const RouteArgs& args) {
    return reinterpret_cast<std::byte*>(kept + in_whole_fours(args.rows * args.to.used));
  }
};
static_assert(offsetof(RouteShared, kept) % 16 == 0);

// Sums of N values over the warp, each as warp_sum() has it: lane l gets that of value l / (32 / N).
template <int N>
__device__ float fold(float (&v)[N]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int left = N;
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) {
    if (left == 1) {
      v[0] += __shfl_xor_sync(0xffffffffu, v[0], d);
      continue;
    }
    left /= 2;
    const bool upper = (lane & d) != 0;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      if (i >= left) break;
      const float given = upper ? v[i] : v[i + left];
      v[i] = (upper ? v[i + left] : v[i]) + __shfl_xor_sync(0xffffffffu, given, d);
    }
  }
  return v[0];
}

// What a thread adds up of its columns, for R rows: the products with each expert, and the squares.
template <int R>
struct RowSums {
  float dot[R * kOutputs] = {}, squares[R] = {};

  __device__ void add(int r, const float4& x, const float4& norm, bool normed, const float4 (&w)[kOutputs]) {
    float4 v = x;
    if (normed) {
      squares[r] += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
      v.x *= norm.x, v.y *= norm.y, v.z *= norm.z, v.w *= norm.w;
    }
#pragma unroll
    for (int e = 0; e < kOutputs; ++e) {
      float& sum = dot[r * kOutputs + e];
      sum = __fmaf_rn(v.x, w[e].x, sum);
      sum = __fmaf_rn(v.y, w[e].y, sum);
      sum = __fmaf_rn(v.z, w[e].z, sum);
      sum = __fmaf_rn(v.w, w[e].w, sum);
    }
  }
  // Over the warp, to RouteShared::part, squares as output kOutputs.
  __device__ void add_up(int rows, float* part) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    constexpr int kDots = 32 / (R * kOutputs), kSquares = 32 / R;  // lanes that have the same sum
    const float sum = fold(dot), square = fold(squares);
    const int r = lane / kDots / kOutputs, e = lane / kDots % kOutputs;
    if (lane % kDots == 0 && r < rows) part[(r * kSums + e) * kWarps + warp] = sum;
    if (lane % kSquares == 0 && lane / kSquares < rows)
      part[(lane / kSquares * kSums + kOutputs) * kWarps + warp] = square;
  }
};

// The sums of this block's rows and experts to `part`. The order over columns depends on their number alone.
template <int R>
__device__ void multiply_rows(const RouteWork& route, int first_row, int rows, const float4* staged, float* part) {
  const int fours = route.x.cols / 4;
  RowSums<R> sums;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < fours; i += kThreads) {
    float4 w[kOutputs], x[R];
#pragma unroll
    for (int r = 0; r < R; ++r) x[r] = reinterpret_cast<const float4*>(route.x.row(first_row + min(r, rows - 1)))[i];
#pragma unroll
    for (int e = 0; e < kOutputs; ++e) w[e] = staged[e * fours + i];
    const float4 norm = route.norm != nullptr ? staged[kOutputs * fours + i] : make_float4(1, 1, 1, 1);
#pragma unroll
    for (int r = 0; r < R; ++r) sums.add(r, x[r], norm, route.norm != nullptr, w);
  }
  sums.add_up(rows, part);
}

// This block's share of the normed rows' columns.
__device__ void write_normed(const RouteWork& route, int first_row, int rows, const float* scale) {
  const int fours = route.x.cols / 4, each = (fours + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const int begin = static_cast<int>(blockIdx.x) * each, n = max(0, min(each, fours - begin));
  if (route.norm == nullptr && route.bf16.data == nullptr) return;
  for (int i = static_cast<int>(threadIdx.x); i < rows * n; i += kThreads) {
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

// The logits of this block's rows, as the blocks hand them over, to the rooms of those who choose.
__device__ void take_logits(const RouteArgs& args, int first_row, int rows, std::byte* room, int room_bytes) {
  const int experts = args.logits.cols, wide = in_whole_fours(experts), fours = wide / 4;
  for (int i = static_cast<int>(threadIdx.x); i < rows * fours; i += kThreads) {
    const int r = i / fours, e = i % fours * 4;
    float* const from[1] = {args.handed + (first_row + r) * wide + e};
    float4 v[1];
    take_over(from, v);
    float* to = reinterpret_cast<float*>(room + r * room_bytes) + e;
    const float values[4] = {v[0].x, v[0].y, v[0].z, v[0].w};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (e + k < experts) to[k] = values[k];
  }
}

// The chosen of this block's rows to the block that makes the list, and there those of all rows to `kept`.
__device__ void exchange_chosen(const RouteArgs& args, int first_row, int rows, bool lists, int32_t* kept) {
  const int used = args.to.used, wide = in_whole_fours(used), fours = wide / 4;
  float* handed = args.handed + args.rows * in_whole_fours(args.logits.cols);
  for (int i = static_cast<int>(threadIdx.x); i < rows * fours; i += kThreads) {
    const int r = i / fours, j = i % fours * 4;
    float v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = __int_as_float(j + k < used ? kept[r * used + j + k] : 0);
    hand_over(handed + (first_row + r) * wide + j, make_float4(v[0], v[1], v[2], v[3]));
  }
  if (!lists) return;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < args.rows * fours; i += kThreads) {
    const int r = i / fours, j = i % fours * 4;
    float* const from[1] = {handed + r * wide + j};
    float4 v[1];
    take_over(from, v);
    const float values[4] = {v[0].x, v[0].y, v[0].z, v[0].w};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (j + k < used) kept[r * used + j + k] = __float_as_int(values[k]);
  }
  __syncthreads();
}

// By the block that began last of those of its rows, and the list by that which began last of all: all others run, so
// it waits for none that has no place on the device.
__device__ void choose_and_list(const RouteArgs& args, int first_row, int rows, RouteShared& shared) {
  int32_t* kept = shared.kept;
  std::byte* room = shared.room(args);
  const bool lists = shared.is_last[1] != 0;
  const RouteWork& route = args.route;
  const int experts = args.logits.cols, warp = static_cast<int>(threadIdx.x) / 32, used = args.to.used;
  const int room_bytes = (experts * kRouterBytes + 15) / 16 * 16;
  const int true_rows = min(*args.true_rows, args.rows);
  take_logits(args, first_row, rows, room, room_bytes);
  __syncthreads();
  if (warp < rows)
    choose_experts(experts, first_row + warp, args.bias, args.to, args.spec,
                   reinterpret_cast<float*>(room + warp * room_bytes), kept + warp * used);
  if (route.list.place == nullptr) return;
  const auto expert = [&](int row, int j) { return kept[row * used + j]; };
  if (args.rows == 1 && true_rows == 1) {
    __syncwarp();
    if (warp == 0) make_list_of_one(used, route.list, expert);
    return;
  }
  __syncthreads();
  if (gridDim.y > 1) exchange_chosen(args, first_row, rows, lists, kept);
  if (!lists) return;
  const ExpertChoice choice{args.to.experts, args.to.experts_stride, used, experts, args.true_rows};
  make_list(choice, true_rows, args.tile, route.list, room, expert);
}

// The logits of this block's rows and experts, for those who choose, and what norms are made of. By eight lanes for
// each row.
__device__ void make_logits(const RouteArgs& args, int first_row, int rows, int first, RouteShared& shared) {
  const RouteWork& route = args.route;
  const int thread = static_cast<int>(threadIdx.x), r = thread / kSums, e = thread % kSums;
  const int experts = args.logits.cols;
  if (thread >= (rows * kSums + 31) / 32 * 32) return;
  float sum = 0;
  if (r < rows && e <= kOutputs)
    for (int w = 0; w < kWarps; ++w) sum += shared.part[thread * kWarps + w];
  float by = route.norm != nullptr ? inverse_root(sum, route.x.cols, route.eps) : 1.0f;
  by = __shfl_sync(0xffffffffu, by, thread % 32 / kSums * kSums + kOutputs);
  sum *= by;
  if (route.bias != nullptr && e < kOutputs && first + e < experts) sum += route.bias[first + e];
  const float second = __shfl_down_sync(0xffffffffu, sum, 1), third = __shfl_down_sync(0xffffffffu, sum, 2);
  const float fourth = __shfl_down_sync(0xffffffffu, sum, 3);
  if (r >= rows) return;
  if (e == 0) {
    hand_over(args.handed + (first_row + r) * in_whole_fours(experts) + first, make_float4(sum, second, third, fourth));
    shared.scale[r] = by;
  }
  if (e < kOutputs && first + e < experts) args.logits.set(first_row + r, first + e, sum);
}

// A block for kOutputs experts and kRows rows, of which R are multiplied at once.
template <int R>
__global__ void __launch_bounds__(kThreads) route_rows(const __grid_constant__ RouteArgs args) {
  const RouteWork& route = args.route;
  RouteShared& shared = *shared_memory<RouteShared>();
  const int experts = args.logits.cols, cols = route.x.cols, fours = cols / 4;
  const int first_row = static_cast<int>(blockIdx.y) * kRows, rows = min(kRows, args.rows - first_row);
  const int first = static_cast<int>(blockIdx.x) * kOutputs, thread = static_cast<int>(threadIdx.x);
  let_next_begin();
  // [kOutputs] rows of the router, then the norm's weight
  float4* staged = reinterpret_cast<float4*>(shared.room(args));
  for (int i = thread; i < kOutputs * fours; i += kThreads) {
    const int e = first + i / fours;
    copy_async(staged + i, route.weight + int64_t{e < experts ? e : 0} * cols + i % fours * 4, e < experts);
  }
  for (int i = thread; i < fours && route.norm != nullptr; i += kThreads)
    copy_async(staged + kOutputs * fours + i, route.norm + i * 4);
  commit_copies();
  if (thread == 0) {
    // The last block of its rows, then the last of these: so that who lists has chosen for its own rows, too.
    uint32_t* of_rows = route.begun + 1 + blockIdx.y;
    const bool last = atomicAdd(of_rows, 1u) + 1 == gridDim.x;
    bool of_all = false;
    if (last) {
      *of_rows = 0;
      of_all = gridDim.y == 1 || atomicAdd(route.begun, 1u) + 1 == gridDim.y;
      if (of_all) *route.begun = 0;
    }
    shared.is_last[0] = last ? 1 : 0;
    shared.is_last[1] = of_all ? 1 : 0;
  }
  wait_for_inputs();
  copies_done<0>();
  __syncthreads();
  for (int begin = 0; begin < rows; begin += R)
    multiply_rows<R>(route, first_row + begin, min(R, rows - begin), staged, shared.part + begin * kSums * kWarps);
  __syncthreads();
  make_logits(args, first_row, rows, first, shared);
  __syncthreads();
  write_normed(route, first_row, rows, shared.scale);
  if (shared.is_last[0] != 0) choose_and_list(args, first_row, rows, shared);
}

int64_t route_shared(int64_t experts, int64_t cols, int64_t used) {
  const int64_t front =
      static_cast<int64_t>(offsetof(RouteShared, kept)) + kRouteRows * in_whole_fours(static_cast<int>(used)) * 4;
  const int64_t choosing = kWarps * ((experts * kRouterBytes + 15) / 16 * 16);
  return front + std::max({(kOutputs + 1) * cols * 4, choosing, list_shared(static_cast<int>(experts))});
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
  const RouteArgs args{route, tile, logits, bias, to, spec, static_cast<int>(rows), true_rows, ctx.handed};
  const Launch shape{dim3(ceil_div(logits.cols, kOutputs), ceil_div(rows, kRows)), dim3(kThreads),
                     route_shared(logits.cols, route.x.cols, to.used)};
  if (rows == 1) {
    launch(ctx, route_rows<1>, shape, args);
  } else if (rows <= 4) {
    launch(ctx, route_rows<4>, shape, args);
  } else {
    launch(ctx, route_rows<8>, shape, args);
  }
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
  if (route_shared(topk.logits.cols, router.x.cols, topk.experts.cols) > 160 << 10) return false;
  const int64_t handed = in_whole_fours(static_cast<int>(topk.logits.cols)) + in_whole_fours(kMostExpertsUsed);
  if (kRouteRows * handed * 4 > p.multiprocessors * kHandedBytes) return false;
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
  route.begun = reinterpret_cast<uint32_t*>(p.allocate(kRouteCounters * 4));
  fill_bytes(route.begun, 0, kRouteCounters * 4, p.stream);
  topk.route = router.route;
  return true;
}

}  // namespace ingot::cuda
