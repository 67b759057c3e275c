// Packs the weights of experts, makes rows of x, and chooses the kernel of a format.
#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/experts/experts_stream.cuh"
#include "matmul/cuda/stream/stream_formats.cuh"

namespace ingot::cuda {
namespace {

__global__ void scaled_places(const View x, const View scale, const View out) {
  let_next_begin();
  wait_for_inputs();
  const int64_t place = blockIdx.x, row = place / scale.cols;
  const int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (2 * i >= out.cols) return;
  const float by = scale.get(row, place % scale.cols);
  const float a = 2 * i < x.cols ? x.get(row, 2 * i) * by : 0.0f;
  const float b = 2 * i + 1 < x.cols ? x.get(row, 2 * i + 1) * by : 0.0f;
  reinterpret_cast<uint32_t*>(out.row(place))[i] = pack_bf16(a, b);
}

}  // namespace

bool experts_pack(std::span<const Weight> weights, int arch) {
  return stream_runs(arch) && std::ranges::all_of(weights, [](const Weight& w) { return stream_packs(w); });
}

PackedExperts pack_experts(std::span<const Weight> first, std::span<const Weight> second, const DeviceCtx& device,
                           const Allocate& allocate) {
  const Weight& w = first[0];
  PackedExperts packed;
  packed.count = static_cast<int>(first.size());
  packed.cols = w.cols;
  packed.part.format = w.format;
  packed.part.tile_rows = kExpertTileRows;
  RowMap& map = packed.part.map;
  map.parts = second.empty() ? 1 : 2;
  map.order = second.empty() ? RowOrder::kPlain : RowOrder::kGlu;
  for (int i = 0; i < map.parts; ++i) map.rows[i] = w.rows;
  packed.stride = streamed_bytes(packed.part, w.cols);
  std::byte* to = allocate(packed.stride * packed.count);
  packed.weights = packed.part.weights = to;
  DeviceCtx alone = device;
  alone.overlap = false;
  for (size_t e = 0; e < first.size(); ++e) {
    DeviceProduct product;
    product.input.x.cols = w.cols;
    product.n_parts = map.parts;
    product.parts[0].weight = &first[e];
    if (!second.empty()) product.parts[1].weight = &second[e];
    pack_stream(product, packed.part, to + static_cast<int64_t>(e) * packed.stride, alone);
  }
  return packed;
}

void run_experts_stream(const ExpertRun& run, const DeviceCtx& ctx) {
  CHECK(run.tile <= kStreamRows && run.packed != nullptr, "tiles of {} places", run.tile);
  const PackedExperts& packed = *run.packed;
  ExpertStreamArgs args;
  args.weights = packed.weights;
  args.stride = packed.stride;
  args.slices = static_cast<int>(stream_tiles(packed.part.map, kExpertTileRows));
  args.units = static_cast<int>(stream_units(packed.cols));
  args.list = run.list;
  args.list_is_there = run.follows;
  args.x = run.x;
  args.per_row = run.per_row;
  args.out = run.out;
  args.outputs = static_cast<int>(packed.part.map.rows[0]);
  std::copy(run.bias, run.bias + 2, args.bias);
  args.is_glu = packed.part.map.order == RowOrder::kGlu;
  args.glu = run.glu;
  visit_stream(packed.part.format, [&](auto w) { run_experts_format<decltype(w)>(args, run.most(), ctx); });
}

void run_experts_any(const AnyExpertsRun& run, const DeviceCtx& ctx) {
  visit_format(run.published.format, [&](auto format) { run_any_format<decltype(format)>(run, ctx); });
}

void scale_places(const View& x, const View& scale, int64_t places, const View& out, const DeviceCtx& ctx) {
  const int64_t threads = std::min<int64_t>(256, ceil_div(out.cols, 64) * 32);
  launch(ctx, scaled_places, {dim3(places, ceil_div(out.cols, 2 * threads)), dim3(threads)}, x, scale, out);
}

}  // namespace ingot::cuda
