// Weights of F32: which tiles a product is made of.
#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/f32_tiles.cuh"

namespace ingot::cuda {
namespace {

using FewRows = F32Shape<8, 64, 2, 4, 5, 4>;
using SmallTiles = F32Shape<16, 64, 4, 4, 5>;
using Tiles = F32Shape<32, 64, 4, 4, 5, 2>;
using LargeTiles = F32Shape<64, 64, 4, 8, 5, 2>;
using LargestTiles = F32Shape<128, 128, 8, 8, 3>;
using TilesOfLittleMemory = F32Shape<32, 64, 4, 4, 5>;  // 68 KB: some devices have 99 for a block

template <class S>
int64_t tiles_of(const F32Args& args) {
  return ceil_div(args.rows, S::kM) * ceil_div(args.outputs, S::kN);
}

}  // namespace

bool f32_takes(const View& x, const Weight& weight) {
  return weight.format == Format::kF32 && weight.scale == nullptr && x.dtype == DType::kF32 && weight.cols % 4 == 0 &&
         x.stride % 4 == 0 &&
         (reinterpret_cast<uintptr_t>(x.data) | reinterpret_cast<uintptr_t>(weight.data)) % 16 == 0;
}

void run_f32(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx) {
  F32Args args;
  args.x = x;
  args.x.cols = static_cast<int>(weight.cols);
  args.weight = reinterpret_cast<const float*>(weight.data);
  args.outputs = weight.rows;
  args.out = out;
  args.rows = rows;
  if (!stream_runs(ctx.arch)) return launch_f32<TilesOfLittleMemory>(args, ctx);
  if (rows <= FewRows::kM) return launch_f32<FewRows>(args, ctx);
  // Few tiles, of which K is cut: a block for each slice, or eight blocks for each tile. On an H200, K 2,048 and 128
  // outputs, µs of 64, 128, 256 and 512 rows: small 5.9, 10.2, 19.5, 39.7; 32 rows 7.0, 7.6, 8.7, 14.2;
  // large 10.4, 10.8, 11.2, 12.7.
  const int64_t most = ctx.multiprocessors / 8;
  if (tiles_of<SmallTiles>(args) * ceil_div(weight.cols, kSumCols) <= ctx.multiprocessors)
    return launch_f32<SmallTiles>(args, ctx);
  if (tiles_of<Tiles>(args) <= most) return launch_f32<Tiles>(args, ctx);
  if (tiles_of<LargeTiles>(args) <= most) return launch_f32<LargeTiles>(args, ctx);
  if (tiles_of<LargestTiles>(args) < ctx.multiprocessors * 3 / 4) return launch_f32<Tiles>(args, ctx);
  launch_f32<LargestTiles>(args, ctx);
}

}  // namespace ingot::cuda
