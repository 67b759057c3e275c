// What the blocks of one grid do with each other beyond hand_over(): they wait for what earlier ones publish, and those
// of a cluster share memory. Kernels that are launched here have dynamic shared memory only (shared_memory()).
#pragma once

#include "cuda/kernel.cuh"

#ifdef INGOT_CUDA_EMULATED
#include "emulator/emulator_blocks.h"
#endif

namespace ingot::cuda {

#ifdef INGOT_CUDA_EMULATED

template <class... P, class... A>
void launch_in_turn(const DeviceCtx& ctx, void (*kernel)(P...), const Launch& shape, A&&... args) {
  emulated::launch_in_turn(ctx.stream, kernel, shape, 1, std::forward<A>(args)...);
}
template <class... P, class... A>
void launch_clusters(const DeviceCtx& ctx, int cluster, void (*kernel)(P...), const Launch& shape, A&&... args) {
  emulated::launch_in_turn(ctx.stream, kernel, shape, cluster, std::forward<A>(args)...);
}

template <class T>
void publish(T* to, T value) {
  *to = value;
  emulated::published();
}
template <class T>
T look(const T* from) {
  return *from;
}
inline void look_again() { emulated::look_again(); }

inline unsigned lanes_alike(uint32_t word, uint32_t bit) {
  const unsigned set = __ballot_sync(0xffffffffu, (word & bit) != 0);
  return (word & bit) != 0 ? set : ~set;
}

inline int cluster_rank() { return emulated::cluster_rank(); }
template <class T>
T* of_cluster(T* shared, int rank) {
  return static_cast<T*>(emulated::of_cluster(shared, rank));
}
inline void cluster_sync() { emulated::meet_cluster(); }

#else

// A kernel whose blocks wait for blocks that began before them: each takes its part by a counter when it begins, never
// by blockIdx. The grid may be larger than what the device runs at a time.
template <class... P, class... A>
void launch_in_turn(const DeviceCtx& ctx, void (*kernel)(P...), const Launch& shape, A&&... args) {
  launch(ctx, kernel, shape, std::forward<A>(args)...);
}

void allow_large_clusters(const void* kernel);

// Each `cluster` blocks along x (up to 16; more than 8 are not on every device) run together and reach each other's
// shared memory. REQUIRES: compute capability 9.0, and a grid of whole clusters.
template <class... P, class... A>
void launch_clusters(const DeviceCtx& ctx, int cluster, void (*kernel)(P...), const Launch& shape, A&&... args) {
  if (shape.shared > 48 << 10) allow_shared(reinterpret_cast<const void*>(kernel), shape.shared);
  if (cluster > 8) allow_large_clusters(reinterpret_cast<const void*>(kernel));
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared);
  config.stream = ctx.stream;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes;
  config.numAttrs = ctx.overlap ? 2 : 1;
  check_launch(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...), "a kernel of clusters");
}

// A word of 4 or 8 bytes for other blocks, whole and at once; nothing that was written before it need be there. Their
// loop: look(), and look_again() where it is not there yet.
template <class T>
__device__ inline void publish(T* to, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 8) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
  } else {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
  }
}
template <class T>
__device__ inline T look(const T* from) {
  T value;
  if constexpr (sizeof(T) == 8) {
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  } else {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  }
  return value;
}
__device__ inline void look_again() {}

// The lanes that have `bit` in their word where this one has it, or have not where it has not; by whole warps. Three
// instructions: of __ballot_sync() and a choice the compiler makes seven.
__device__ inline unsigned lanes_alike(uint32_t word, uint32_t bit) {
  uint32_t alike;
  asm volatile(
      "{\n"
      ".reg .pred set;\n"
      "and.b32 %0, %1, %2;\n"
      "setp.ne.u32 set, %0, 0;\n"
      "vote.sync.ballot.b32 %0, set, 0xffffffff;\n"
      "@!set not.b32 %0, %0;\n"
      "}"
      : "=r"(alike)
      : "r"(word), "r"(bit));
  return alike;
}

__device__ inline int cluster_rank() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return static_cast<int>(rank);
}
// What lies at the same place of the shared memory of block `rank` of the cluster. Between two cluster_sync().
template <class T>
__device__ inline T* of_cluster(T* shared, int rank) {
  uint64_t place = 0;
#if __CUDA_ARCH__ >= 900
  asm("mapa.u64 %0, %1, %2;" : "=l"(place) : "l"(shared), "r"(rank));
#endif
  return reinterpret_cast<T*>(place);
}
// All threads of the cluster; what they wrote before it is there after it. A block ends after the last use of its
// memory by others: with such a barrier.
__device__ inline void cluster_sync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

#endif

}  // namespace ingot::cuda
