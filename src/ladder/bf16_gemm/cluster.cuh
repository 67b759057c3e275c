// The product of tiles by clusters (matmul/cuda/gemm_clusters.cuh) as a step. Compute capability 9.0 alone.
#pragma once

#include "ladder/bf16_gemm/group.cuh"
#include "matmul/cuda/gemm_clusters.cuh"

namespace ingot::cuda {

// False: not on this device, or not such a product.
template <class T, int kBand>
bool run_clusters(const Bf16Gemm& op, const Ctx& ctx, Sharing sharing) {
  const GemmMatrix a(op.a, ctx), b(op.b, ctx);
  if (a.rows == 0 || b.rows == 0) return true;
  if (ctx.arch != 90 || b.rows % 8 != 0 || op.out.stride % 8 != 0) return false;
  ClusterWalk<T, kBand> walk(a.rows, b.rows, a.cols);
  const int clusters = clusters_of(walk, sharing, ctx.multiprocessors, ctx.scratch_bytes);
  launch_clusters(ctx, T::kBlocks, gemm_clusters<T, kBand, StoreRows>,
                  {dim3(clusters * T::kBlocks), dim3(384), T::kBytes},
                  make_tensor_map(a.data, a.rows, a.cols, a.stride, T::kM / T::kAcross),
                  make_tensor_map(b.data, b.rows, b.cols, b.stride, T::kN / T::kDown), StoreRows{View(op.out)}, walk,
                  HandedSums{reinterpret_cast<float*>(ctx.scratch), ctx.tickets});
  return true;
}

}  // namespace ingot::cuda
