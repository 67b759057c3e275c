// Which products have rows of e4m3, how nine and more of them are cut, and the launch (f8_kernel.cuh).
#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/f8/f8.cuh"
#include "matmul/cuda/f8/f8_rows.cuh"

namespace ingot::cuda {

template <bool kBlocks>
void run_f8_kernel(const F8Args& args, bool rows, const DeviceCtx& ctx);

namespace {

constexpr int kLeastChunks = 4;  // of a split

bool fits_16(const View& v) {
  const int bytes = v.dtype == DType::kF32 ? 4 : 2;
  return reinterpret_cast<uintptr_t>(v.data) % 16 == 0 && v.stride * bytes % 16 == 0;
}

// Whether outputs can go to args.to in rows, as f8_kernel.cuh stores them.
bool by_rows(const F8Args& args) {
  const View& to = args.to;
  if (to.data == nullptr || !fits_16(to)) return false;
  if (args.stream.glu != ActivationKind::kNone)
    return args.stream.glu == ActivationKind::kSilu && to.dtype == DType::kBF16 && args.stream.map.rows[0] % 8 == 0 &&
           args.stream.outs[0].bias == nullptr && args.stream.outs[1].bias == nullptr;
  if (to.dtype == DType::kBF16) return args.residual.data == nullptr;
  return to.dtype == DType::kF32 &&
         (args.residual.data == nullptr || (args.residual.dtype == DType::kF32 && fits_16(args.residual)));
}

void set_tiles(F8Plan& plan, int tile_rows, int tile_cols, int64_t rows, int64_t sixteens) {
  plan.tile_rows = tile_rows;
  plan.tile_cols = tile_cols;
  plan.rows = static_cast<int>(ceil_div(rows, tile_rows));
  plan.cols = static_cast<int>(ceil_div(sixteens, tile_cols / 16));
  plan.splits = 1;
}

}  // namespace

bool f8_by_blocks(const DeviceProduct& product) {
  return std::any_of(product.parts, product.parts + product.n_parts, [](const ProductPart& p) {
    return p.weight->scale != nullptr && p.weight->scale_cols < p.weight->cols;
  });
}

bool f8_takes(const DeviceProduct& product, int arch) {
  const int64_t cols = product.cols();
  if (arch != 90 || cols % kF8Cols != 0 || product.input.add) return false;
  if (product.input.norm != nullptr && cols > kF8NormCols) return false;
  return std::all_of(product.parts, product.parts + product.n_parts, [](const ProductPart& p) {
    return p.weight->format == Format::kF8_E4M3 && stream_packs(*p.weight);
  });
}

// Up to 64 rows the memory is the limit, and how many blocks ask it at a time. More: tiles of 256 x 128 read shared
// memory least for a product, but need to be as many as there are multiprocessors. An H200, 28,672 x 4,096: at 32 rows
// 34 us in tiles of 64 x 256, 39 of 64 x 128; at 128 38 of 128 x 256, 45 of 128 x 128; at 256 65 of 256 x 128, 76 of
// 128 x 256.
F8Plan f8_plan(int64_t rows, int64_t sixteens, int64_t chunks, int multiprocessors) {
  F8Plan plan;
  const auto narrow = static_cast<int>(ceil_div(sixteens, 8)), wide = static_cast<int>(ceil_div(sixteens, 16));
  plan.chunks = static_cast<int>(chunks);
  const auto set = [&](int tile_rows, int tile_cols) { set_tiles(plan, tile_rows, tile_cols, rows, sixteens); };
  if (rows <= 64) {
    wide * 3 >= multiprocessors * 2 ? set(64, 256) : set(64, 128);
  } else if (ceil_div(rows, 128) * narrow <= multiprocessors) {
    set(128, 128);
  } else {
    rows <= 128 ? set(128, 256) : set(256, 128);
  }
  if (plan.tile_cols == 256 || plan.tile_rows == 256) return plan;
  for (const int splits : {4, 2}) {
    if (plan.splits > 1 || plan.tiles() * splits > multiprocessors || chunks < splits * kLeastChunks) continue;
    plan.splits = splits;
  }
  return plan;
}

void run_f8(const F8Run& run, const DeviceCtx& ctx) {
  const DeviceProduct& product = *run.product;
  StreamRun stream;
  stream.product = run.product;
  stream.part = run.part;
  stream.rows = run.rows;
  std::copy(run.outs, run.outs + 3, stream.outs);
  F8Args args;
  args.stream = stream_args(stream);
  args.stream.from = args.stream.to = {};
  args.packed_tile = run.part->tile_rows;
  args.sixteens = static_cast<int>(stream_tiles(run.part->map, run.part->tile_rows) * (run.part->tile_rows / 16));
  args.x = run.x;
  args.handed = ctx.handed;
  args.plan = f8_plan(run.rows, args.sixteens, product.cols() / kF8Cols, ctx.multiprocessors);
  args.to = run.to;
  if (args.to.data == nullptr && (product.n_parts == 1 || product.is_glu())) {
    args.to = run.outs[0].out;
    args.bias = product.is_glu() ? nullptr : run.outs[0].bias;
    args.residual = run.outs[0].residual;
  }
  F8Plan& plan = args.plan;
  // Pairs would be turned where they end.
  if (run.to.data != nullptr && args.stream.map.order == RowOrder::kHeads)
    set_tiles(plan, 256, 128, run.rows, args.sixteens);
  const bool rows = (plan.tile_cols == 256 || plan.tile_rows == 256) && by_rows(args);
  if (!rows && (plan.tile_cols == 256 || plan.tile_rows == 256))
    set_tiles(plan, std::min(plan.tile_rows, 128), 128, run.rows, args.sixteens);
  CHECK(rows || run.to.data == nullptr || args.stream.map.order == RowOrder::kPlain, "{} rows of heads", run.rows);
  args.weights_once = plan.rows == 1;
  product.streamed->f8_blocks ? run_f8_kernel<true>(args, rows, ctx) : run_f8_kernel<false>(args, rows, ctx);
}

}  // namespace ingot::cuda
