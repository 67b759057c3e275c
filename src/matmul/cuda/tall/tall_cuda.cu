// Nine to 256 rows of packed weights, or as many of each of several groups: x into the order of their columns, the
// product by the kernel of the weights' format (tall_kernel.cuh), and the sums of splits to where they belong.
#include "base/check.h"
#include "matmul/cuda/stream/stream_formats.cuh"
#include "matmul/cuda/tall/tall_end.cuh"

namespace ingot::cuda {
namespace {

constexpr int kTurnThreads = 256;
int most_splits(int bodies) { return std::clamp(bodies / 4, 1, 8); }
int x_rows_of(int64_t rows) { return rows <= 32 ? 32 : rows <= 64 ? 64 : rows <= 128 ? 128 : 256; }
// x as the products read it from shared memory (wgmma.cuh, by rows): a stage is 64 columns of all rows; in each 32 of
// them the columns are where the instruction's lanes have those of the weights (stream_codes.cuh). A thread makes 16
// bytes; columns beyond the last are zeros.
__global__ void __launch_bounds__(kTurnThreads)
    turn_rows(const View x, int rows, int x_rows, int units, bool by_sixteens, int64_t pieces, std::byte* to) {
  let_next_begin();
  wait_for_inputs();
  const int64_t index = int64_t{blockIdx.x} * kTurnThreads + threadIdx.x;
  if (index >= pieces) return;
  const int piece = static_cast<int>(index % 8), row = static_cast<int>(index / 8 % rows);
  const int step = static_cast<int>(index / 8 / rows), unit = step * 2 + piece / 4;
  uint32_t words[4] = {};
  if (unit < units) {
    const std::byte* from = x.row(row) + unit * 64;
#pragma unroll
    for (int t = 0; t < 4; ++t)
      words[t] = *reinterpret_cast<const uint32_t*>(from + pair_col(by_sixteens, t, piece / 2 % 2, piece % 2 * 2) * 2);
  }
  std::byte* at = to + (int64_t{step} * x_rows + row) * kTallStepBytes + kv_piece(row, piece) * 16;
  *reinterpret_cast<uint4*>(at) = make_uint4(words[0], words[1], words[2], words[3]);
}

struct TurnArgs {
  TallGroups groups;
  View x;
  int64_t cols = 0;
  int x_rows = 0, per_row = 1, apart = 0, tail = 0, steps = 0;
  bool by_sixteens = false;
  std::byte* to = nullptr;
};

// Columns col and col + 1 of a row as bf16; zeros from `cols` on. kPadded: rows of bf16 that are zeros there already,
// up to whole units.
template <bool kPadded>
__device__ inline uint32_t pair_of_x(const std::byte* row, int64_t at, int64_t col, int64_t cols, DType dtype) {
  if constexpr (kPadded) return *reinterpret_cast<const uint32_t*>(row + col * 2);
  if (col + 1 >= cols) return col < cols ? pack_bf16(load_value(row, at + col, dtype), 0.0f) : 0u;
  if (dtype == DType::kBF16) return *reinterpret_cast<const uint32_t*>(row + (at + col) * 2);
  if (dtype == DType::kF16) return pack_bf16(load_value(row, at + col, dtype), load_value(row, at + col + 1, dtype));
  const float2 v = *reinterpret_cast<const float2*>(row + (at + col) * 4);
  return pack_bf16(v.x, v.y);
}

constexpr int kTurnSteps = 4;  // of a block

// The same for tiles of groups, one after another: a thread makes 16 bytes of kTurnSteps steps of a row.
template <bool kPadded>
__global__ void __launch_bounds__(kTurnThreads) turn_places(const __grid_constant__ TurnArgs args) {
  let_next_begin();
  wait_for_inputs();
  ExpertTile tile;
  if (!find_tile(args.groups, static_cast<int>(blockIdx.y), args.x_rows, tile)) return;
  const int piece = static_cast<int>(threadIdx.x) % 8, first_step = static_cast<int>(blockIdx.x) * kTurnSteps;
  const int64_t at = int64_t{tile.expert} * args.apart;
  std::byte* to = args.to + tile_x(args.groups, tile) * args.steps * kTallStepBytes;
  for (int row = static_cast<int>(threadIdx.x) / 8; row < tile.count; row += kTurnThreads / 8) {
    const int place = args.groups.list.place != nullptr ? args.groups.list.place[tile.first + row] : tile.first + row;
    const std::byte* from = args.x.row(args.per_row == 1 ? place : place / args.per_row);
#pragma unroll
    for (int s = 0; s < kTurnSteps; ++s) {
      const int step = first_step + s;
      if (step >= args.steps) break;
      const int64_t col = int64_t{step * 2 + piece / 4} * kStreamCols;
      uint32_t words[4] = {};
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        if (col >= args.cols) break;
        words[t] = pair_of_x<kPadded>(from, at, col + pair_col(args.by_sixteens, t, piece / 2 % 2, piece % 2 * 2),
                                      args.cols, args.x.dtype);
      }
      *reinterpret_cast<uint4*>(to + (int64_t{step} * tile.count + row) * kTallStepBytes + kv_piece(row, piece) * 16) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
    if (blockIdx.x != 0) continue;
    const View& out = args.groups.out;
    for (int c = piece; c < args.tail; c += 8)
      out.set(place, int64_t{tile.expert} * args.groups.out_apart + args.groups.outputs + c,
              args.x.get(place, at + args.cols + c));
  }
}

// A warp for each octet of 16 rows of the weights. Splits are added in their order.
__global__ void __launch_bounds__(32 * kTallWarps) add_splits(const __grid_constant__ TallArgs args) {
  __shared__ float room[kTallWarps * kTurnedRoom];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const TallPlan& plan = args.plan;
  const int octets = (args.stream.rows + 7) / 8;
  const int64_t index = int64_t{blockIdx.x} * kTallWarps + warp, sixteen = index / octets;
  const int octet = static_cast<int>(index - sixteen * octets);
  let_next_begin();
  wait_for_inputs();
  if (sixteen >= plan.sixteens) return;
  const int64_t split_floats = int64_t{plan.sixteens} * (plan.x_rows / 8) * 32;
  const float4* from = reinterpret_cast<const float4*>(args.sums) + (sixteen * (plan.x_rows / 8) + octet) * 32 + lane;
  float4 sum = *from;
  for (int s = 1; s < plan.splits; ++s) {
    const float4 v = from[s * split_floats];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  finish_octets(args.stream, sixteen, octet, sum, room + warp * kTurnedRoom);
}

}  // namespace

namespace {
template <class W>
constexpr bool kHasGroups = W::kTall || std::is_same_v<W, StreamBF16>;
int64_t bodies_of(int64_t cols) { return ceil_div(stream_units(cols), kTallBodyUnits); }
int sixteens_of(const StreamedPart& part) {
  return static_cast<int>(stream_tiles(part.map, part.tile_rows) * (part.tile_rows / 16));
}
}  // namespace

bool tall_has_groups(Format format) {
  return format != Format::kF32 && visit_stream(format, [](auto w) { return kHasGroups<decltype(w)>; });
}

int64_t tall_groups_scratch(int64_t rows, int64_t cols) {
  return piece_bytes(rows * bodies_of(cols) * 2 * kTallStepBytes);
}

void run_tall_groups(const TallGroupsRun& run, std::byte* scratch, const DeviceCtx& ctx) {
  if (run.groups.tiles == 0) return;
  TallArgs args;
  args.stream.weights = run.part.weights;
  args.stream.units = static_cast<int>(stream_units(run.cols));
  args.plan.x_rows = run.x_rows;
  args.plan.sixteens = sixteens_of(run.part);
  args.plan.blocks = static_cast<int>(ceil_div(args.plan.sixteens, kTallWarps));
  args.plan.bodies = static_cast<int>(bodies_of(run.cols));
  args.tile_rows = run.part.tile_rows;
  args.x = scratch;
  args.groups = run.groups;
  TurnArgs turn{.groups = run.groups,
                .x = run.x,
                .cols = run.cols,
                .x_rows = run.x_rows,
                .per_row = run.per_row,
                .apart = run.apart,
                .tail = run.tail,
                .steps = args.plan.bodies * 2,
                .by_sixteens = false,
                .to = scratch};
  visit_stream(run.part.format, [&](auto w) {
    using W = decltype(w);
    if constexpr (kHasGroups<W>) {
      turn.by_sixteens = W::kBySixteens;
      args.stream.chunks = static_cast<int>(stream_chunks(run.cols, W::kUnits));
      const dim3 grid(ceil_div(turn.steps, kTurnSteps), static_cast<unsigned>(run.groups.tiles));
      launch(ctx, run.padded ? turn_places<true> : turn_places<false>, {grid, dim3(kTurnThreads)}, turn);
      run_tall_format<W>(args, ctx);
    } else {
      CHECK(false, "groups of {}", format_name(run.part.format));
    }
  });
}

bool tall_has(Format format) {
  return visit_stream(format, [](auto w) { return decltype(w)::kTall; });
}

TallPlan tall_plan(const StreamedPart& part, int64_t cols, int64_t rows, int multiprocessors) {
  TallPlan plan;
  plan.x_rows = x_rows_of(rows);
  plan.sixteens = sixteens_of(part);
  plan.blocks = static_cast<int>(ceil_div(plan.sixteens, kTallWarps));
  plan.bodies = static_cast<int>(bodies_of(cols));
  // Two thirds of the device is enough; a split has four bodies at least.
  const int most = std::min(multiprocessors, kTallMostSplit);
  if (plan.blocks * 3 < most * 2) plan.splits = std::clamp(most / plan.blocks, 1, most_splits(plan.bodies));
  return plan;
}

int64_t tall_scratch(int64_t outputs, int64_t cols, int64_t rows) {
  TallPlan plan;
  plan.x_rows = x_rows_of(rows);
  plan.bodies = static_cast<int>(bodies_of(cols));
  plan.splits = most_splits(plan.bodies);
  // Tiles of each of three parts may be filled up.
  plan.sixteens = static_cast<int>(std::min<int64_t>(ceil_div(outputs, 16) + 3 * 3, kTallMostSplit * kTallWarps));
  return piece_bytes(plan.x_bytes()) +
         piece_bytes(std::min(plan.sums_bytes(), int64_t{kTallMostSplit} * kTallWarps * (plan.x_rows / 8) * 512));
}

void run_tall(const StreamRun& run, std::byte* scratch, const DeviceCtx& ctx) {
  const StreamedPart& part = *run.part;
  CHECK(run.rows >= 1 && run.rows <= kTallRows && run.x.data != nullptr, "{} rows", run.rows);
  TallArgs args;
  args.stream = stream_args(run);
  args.stream.from = args.stream.to = {};
  args.plan = tall_plan(part, run.product->cols(), run.rows, ctx.multiprocessors);
  args.tile_rows = part.tile_rows;
  args.x = scratch;
  args.sums = reinterpret_cast<float*>(scratch + piece_bytes(args.plan.x_bytes()));
  const bool by_sixteens = visit_stream(part.format, [](auto w) { return decltype(w)::kBySixteens; });
  const int64_t pieces = int64_t{args.plan.bodies} * 2 * run.rows * 8;
  launch(ctx, turn_rows, {dim3(ceil_div(pieces, kTurnThreads)), dim3(kTurnThreads)}, run.x, static_cast<int>(run.rows),
         args.plan.x_rows, args.stream.units, by_sixteens, pieces, scratch);
  visit_stream(part.format, [&](auto w) {
    using W = decltype(w);
    if constexpr (W::kTall) {
      run_tall_format<W>(args, ctx);
    } else {
      CHECK(false, "{} rows of {}", run.rows, format_name(part.format));
    }
  });
  if (args.plan.splits == 1) return;
  const int64_t warps = int64_t{args.plan.sixteens} * ceil_div(run.rows, 8);
  launch(ctx, add_splits, {dim3(ceil_div(warps, kTallWarps)), dim3(32 * kTallWarps)}, args);
}

}  // namespace ingot::cuda
