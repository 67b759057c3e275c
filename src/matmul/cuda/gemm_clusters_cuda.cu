// Many rows of bf16 without a library on compute capability 9.0: two blocks of a cluster share 256 columns of the
// weights, each has 128 rows (gemm_clusters.cuh).
#include "matmul/cuda/gemm_clusters.cuh"
#include "matmul/cuda/gemm_clusters.h"

namespace ingot::cuda {
namespace {

using Tile = ClusterTile<2, 1>;
constexpr int kBand = 8;

// With a bias, a residual or another type.
struct StoreParts {
  PartOut out;
  int n = 0;

  __device__ void operator()(const float (&acc)[128], int64_t rows, int64_t row, int64_t col) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
    for (int i = 0; i < 128; ++i) {
      const int64_t r = row + 16 * warp + lane / 4 + i / 2 % 2 * 8, c = col + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (r < rows && c < n) store_part(out, r, c, acc[i]);
    }
  }
};

template <class Store>
void launch_tiles(const View& x, const Weight& weight, const Store& store, int64_t rows, const DeviceCtx& ctx) {
  ClusterWalk<Tile, kBand> walk(rows, weight.rows, weight.cols);
  const int clusters = clusters_of(walk, Sharing::kStay, ctx.multiprocessors, 0);
  launch_clusters(ctx, Tile::kBlocks, gemm_clusters<Tile, kBand, Store>,
                  {dim3(clusters * Tile::kBlocks), dim3(384), Tile::kBytes},
                  make_tensor_map(x.data, rows, weight.cols, x.stride * 2, Tile::kM),
                  make_tensor_map(weight.data, weight.rows, weight.cols, weight.cols * 2, Tile::kN / Tile::kDown),
                  store, walk, HandedSums{});
}

}  // namespace

bool run_gemm_clusters(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx) {
  // Fewer tiles than that leave most of the device alone, and smaller ones do better.
  const int64_t tiles = ceil_div(rows, Tile::kM) * ceil_div(weight.rows, Tile::kN);
  if (ctx.arch != 90 || tiles < ctx.multiprocessors / 2) return false;
  const bool plain = out.bias == nullptr && out.residual.data == nullptr && out.out.dtype == DType::kBF16 &&
                     weight.rows % 8 == 0 && out.out.stride % 8 == 0 &&
                     reinterpret_cast<uintptr_t>(out.out.data) % 16 == 0;
  if (plain) {
    View to = out.out;
    to.cols = static_cast<int>(weight.rows);
    launch_tiles(x, weight, StoreRows{to}, rows, ctx);
  } else {
    launch_tiles(x, weight, StoreParts{out, static_cast<int>(weight.rows)}, rows, ctx);
  }
  return true;
}

}  // namespace ingot::cuda
