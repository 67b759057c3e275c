// Tiles of 128 by 256 results, one a block, by clusters of blocks. Compute capability 9.0 alone.
#pragma once

#include "ladder/bf16_gemm/group.cuh"
#include "ladder/gemm_clusters.cuh"

namespace ingot::cuda {

template <int kDown, int kAcross, int kStages_ = 4>
struct ClusterTile : ClusterPlace<kDown, kAcross> {
  using ClusterPlace<kDown, kAcross>::ClusterPlace;
  static constexpr int kStages = kStages_;
  static constexpr int kM = 128, kN = 256, kK = 64;
  static constexpr int kA = kM * 128, kStage = kA + kN * 128;  // bytes; rows of 128
  static constexpr int kBarriers = kStages * kStage;
  static constexpr int64_t kBytes = kBarriers + 2 * kStages * static_cast<int64_t>(sizeof(CopyBarrier));
  static constexpr int kWarps = 8;  // that multiply
};

template <class T, int kBand>
__device__ void multiply_stages(const View& out, const ClusterWalk<T, kBand>& walk, const T& tile,
                                const HandedSums& handed, const std::byte* shared, CopyBarrier* full,
                                CopyBarrier* empty) {
  const int group = static_cast<int>(threadIdx.x) / 128 - 1, lane = static_cast<int>(threadIdx.x) % 32;
  const bool arrives = lane < T::kBlocks && tile.shares_with(lane);
  const auto give_back = [&](int at) {
    if constexpr (T::kBlocks > 1) {
      if (arrives) barrier_arrive_at(empty + at, lane);
    } else {
      if (arrives) barrier_arrive(empty + at);
    }
  };
  int at = 0, before = 0;
  uint32_t parity = 0;
  float acc[128];
  TileSteps part;
  for (int i = 0; walk.part(i, part); ++i) {
    for (int s = part.from; s < part.to; ++s) {
      const MatrixPlace a = matrix_by_rows(shared + at * T::kStage + group * 64 * 128),
                        b = matrix_by_rows(shared + at * T::kStage + T::kA);
      barrier_wait(full + at, parity);
      products_begin();
#pragma unroll
      for (int kk = 0; kk < T::kK / 16; ++kk)
        multiply_group<true, false>(acc, further(a, 32 * kk), further(b, 32 * kk), s > part.from || kk > 0);
      products_commit();
      products_done<1>();
      if (s > part.from) give_back(before);
      before = at;
      if (++at == T::kStages) {
        at = 0;
        parity ^= 1;
      }
    }
    products_done<0>(acc);
    give_back(before);
    const int thread = static_cast<int>(threadIdx.x) - 128;
    if (part.to < walk.steps) {
      handed.give(acc, thread);
      continue;
    }
    if (part.from > 0)
      for (int c = walk.cluster() - 1; c >= 0 && walk.has_part(c, part.tile); --c)
        handed.add(acc, c * T::kBlocks + cluster_rank(), thread);
    int row, col;
    walk.place(tile, part.tile, row, col);
    store_rows<128>(acc, out, walk.m, row + 64 * group, col);
  }
}

// The first warpgroup copies, by one thread; the other two multiply, 64 rows each. Clusters take tiles in turn.
template <class T, int kBand>
__global__ void __launch_bounds__(384, 1)
    gemm_clusters(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, View out,
                  const ClusterWalk<T, kBand> walk, const HandedSums handed) {
#if INGOT_HAS_WGMMA
  let_next_begin();
  std::byte* shared = shared_memory<std::byte>();
  auto* full = reinterpret_cast<CopyBarrier*>(shared + T::kBarriers);
  CopyBarrier* empty = full + T::kStages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < T::kStages; ++i) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, T::kWarps * (T::kDown + T::kAcross - 1));
    }
    barrier_inits_done();
  }
  cluster_sync();
  wait_for_inputs();
  const T tile(cluster_rank());
  if (threadIdx.x < 128) {
    give_registers<40>();
    if (threadIdx.x == 0) copy_stages(a, b, walk, tile, shared, full, empty);
    __syncwarp();
  } else {
    take_registers<232>();
    multiply_stages(out, walk, tile, handed, shared, full, empty);
  }
  cluster_sync();  // others write into this block's memory until then
#endif
}

// False: not on this device, or not such a product.
template <class T, int kBand>
bool run_clusters(const Bf16Gemm& op, const Ctx& ctx, Sharing sharing) {
  const GemmMatrix a(op.a, ctx), b(op.b, ctx);
  if (a.rows == 0 || b.rows == 0) return true;
  if (ctx.arch != 90 || b.rows % 8 != 0 || op.out.stride % 8 != 0) return false;
  ClusterWalk<T, kBand> walk(a.rows, b.rows, a.cols);
  const int clusters = clusters_of(walk, sharing, ctx.multiprocessors, ctx.scratch_bytes);
  launch_clusters(ctx, T::kBlocks, gemm_clusters<T, kBand>, {dim3(clusters * T::kBlocks), dim3(384), T::kBytes},
                  make_tensor_map(a.data, a.rows, a.cols, a.stride, T::kM / T::kAcross),
                  make_tensor_map(b.data, b.rows, b.cols, b.stride, T::kN / T::kDown), View(op.out), walk,
                  HandedSums{reinterpret_cast<float*>(ctx.scratch), ctx.tickets});
  return true;
}

}  // namespace ingot::cuda
