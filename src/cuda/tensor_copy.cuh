// Rectangles of a matrix of 16-bit values into shared memory, by one thread and one instruction each (tensor copies,
// compute capability 9.0): box_rows rows of 64 columns lie there as wgmma.cuh wants matrices by rows, 128 bytes each
// with pieces permuted as kv_piece() says; what is beyond the matrix is zeros. The same bytes may go to several blocks
// of a cluster (multicast).
#pragma once

#include "cuda/blocks.cuh"

#ifndef INGOT_CUDA_EMULATED
#include <cuda.h>
#endif

namespace ingot::cuda {

#ifdef INGOT_CUDA_EMULATED

using emulated::TensorMap;

inline void copy_tensor(void* shared, const TensorMap& map, int64_t col, int64_t row, CopyBarrier* barrier,
                        uint32_t blocks) {
  emulated::copy_box(shared, map, col, row, barrier, blocks);
}
inline void copy_tensor(void* shared, const TensorMap& map, int64_t col, int64_t row, CopyBarrier* barrier) {
  emulated::copy_box(shared, map, col, row, barrier, 1u << cluster_rank());
}
inline void barrier_arrive_at(CopyBarrier* barrier, int rank) { barrier_arrive(of_cluster(barrier, rank)); }
inline void expect_copies_by(const TensorMap&) {}

#else

struct TensorMap {  // a parameter of a kernel: const __grid_constant__
  CUtensorMap map;
};

// The map will be wanted soon.
__device__ inline void expect_copies_by(const TensorMap& map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}
// The rectangle whose first value is at (row, col) to `shared`, a multiple of 1024 bytes; box_rows · 128 bytes complete
// the barrier, whatever part of them is beyond the matrix.
__device__ inline void copy_tensor(void* shared, const TensorMap& map, int64_t col, int64_t row, CopyBarrier* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_address(shared)),
      "l"(&map), "r"(static_cast<int>(col)), "r"(static_cast<int>(row)), "r"(shared_address(barrier))
      : "memory");
#endif
}
// To the same place of each block of the cluster whose bit is in `blocks`, where it completes the barrier at that
// place. Compute capability 9.0 alone.
__device__ inline void copy_tensor(void* shared, const TensorMap& map, int64_t col, int64_t row, CopyBarrier* barrier,
                                   uint32_t blocks) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(static_cast<int>(col)), "r"(static_cast<int>(row)), "r"(shared_address(barrier)),
      "h"(static_cast<uint16_t>(blocks))
      : "memory");
#endif
}
// One arrival at the barrier at that place of block `rank` of the cluster.
__device__ inline void barrier_arrive_at(CopyBarrier* barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
#endif
}

#endif

// Not `permuted`: the values lie in shared memory as they do in the matrix (which may be permuted itself).
// REQUIRES: data and stride (bytes) multiples of 16; box_rows at most 256; rows and cols not 0.
TensorMap make_tensor_map(const std::byte* data, int64_t rows, int64_t cols, int64_t stride, int box_rows,
                          bool permuted = true);

}  // namespace ingot::cuda
