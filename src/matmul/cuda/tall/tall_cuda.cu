// Nine to 256 rows of packed weights: x into the order of their columns, the product by the kernel of the weights'
// format (tall_kernel.cuh), and the sums of splits to where they belong.
#include "base/check.h"
#include "matmul/cuda/tall/tall_kernel.cuh"

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

bool tall_has(Format format) {
  return visit_stream(format, [](auto w) { return decltype(w)::kTall; });
}

TallPlan tall_plan(const StreamedPart& part, int64_t cols, int64_t rows, int multiprocessors) {
  TallPlan plan;
  plan.x_rows = x_rows_of(rows);
  plan.sixteens = static_cast<int>(stream_tiles(part.map, part.tile_rows) * (part.tile_rows / 16));
  plan.blocks = static_cast<int>(ceil_div(plan.sixteens, kTallWarps));
  plan.bodies = static_cast<int>(ceil_div(stream_units(cols), kTallBodyUnits));
  // Two thirds of the device is enough; a split has four bodies at least.
  const int most = std::min(multiprocessors, kTallMostSplit);
  if (plan.blocks * 3 < most * 2) plan.splits = std::clamp(most / plan.blocks, 1, most_splits(plan.bodies));
  return plan;
}

int64_t tall_scratch(int64_t outputs, int64_t cols, int64_t rows) {
  TallPlan plan;
  plan.x_rows = x_rows_of(rows);
  plan.bodies = static_cast<int>(ceil_div(stream_units(cols), kTallBodyUnits));
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
