#include "base/check.h"
#include "matmul/cuda/experts/experts_some.cuh"

namespace ingot::cuda {
namespace {

// Bytes of a tile's x.
template <class W>
int64_t tile_bytes(int64_t cols) {
  return stream_chunks(cols, W::kUnits) * W::kUnits * (kSomeTile / 8) * SomeX<W>::kOctet;
}

}  // namespace

bool experts_some_has(Format format) {
  return format != Format::kF32 && visit_stream(format, [](auto w) { return decltype(w)::kScaled; });
}

int64_t experts_some_scratch(Format format, int64_t places, int64_t count, int64_t cols) {
  return visit_stream(format, [&](auto w) -> int64_t {
    using W = decltype(w);
    if constexpr (W::kScaled) return piece_bytes(most_tiles(places, count, kSomeTile) * tile_bytes<W>(cols));
    return 0;
  });
}

void run_experts_some(const ExpertRun& run, const DeviceCtx& ctx) {
  const PackedExperts& packed = *run.packed;
  const Format format = packed.part.format;
  const int64_t bytes = experts_some_scratch(format, run.places, packed.count, packed.cols);
  CHECK(run.tile == kSomeTile && bytes <= ctx.scratch_bytes, "{} bytes of scratch, {} given", bytes, ctx.scratch_bytes);
  SomeArgs args;
  args.weights = packed.weights;
  args.units = static_cast<int>(stream_units(packed.cols));
  args.sixteens = static_cast<int>(stream_tiles(packed.part.map, kExpertTileRows) * (kExpertTileRows / 16));
  args.x = ctx.scratch;
  args.from = run.x;
  args.per_row = run.per_row;
  args.groups.stride = packed.stride;
  args.groups.tiles = run.most();
  args.groups.list = run.list;
  args.groups.out = run.out;
  args.groups.outputs = static_cast<int>(packed.part.map.rows[0]);
  args.groups.bias[0] = run.bias[0];
  args.groups.bias[1] = run.bias[1];
  args.groups.glu = run.glu;
  visit_stream(format, [&](auto w) {
    using W = decltype(w);
    if constexpr (W::kScaled) {
      run_some_format<W>(args, ctx);
    } else {
      CHECK(false, "some places of {}", format_name(format));
    }
  });
}

}  // namespace ingot::cuda
