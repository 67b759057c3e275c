// Meetings of kernels of several devices (peers.h). Such kernels have no __shared__ memory: on the host others run
// while they wait.
#pragma once

#include "cuda/kernel.cuh"
#include "cuda/peers.h"

#ifdef INGOT_CUDA_EMULATED
#include "emulator/emulator_peers.h"
#endif

namespace ingot::cuda {

#ifdef INGOT_CUDA_EMULATED

template <class... P, class... A>
void launch_peers(const DeviceCtx& ctx, void (*kernel)(P...), const Launch& shape, A&&... args) {
  emulated::launch_peers(ctx.stream, kernel, shape, std::forward<A>(args)...);
}

inline void store_for_peer(uint32_t* to, uint32_t value) { *to = value; }
inline uint32_t load_from_peer(const uint32_t* from) { return *from; }
inline void look_for_peer() { emulated::wait_a_while(); }
inline int64_t device_ns() { return emulated::now_ns(); }

#else

// A kernel whose blocks wait for those of the same index on other devices.
template <class... P, class... A>
void launch_peers(const DeviceCtx& ctx, void (*kernel)(P...), const Launch& shape, A&&... args) {
  launch(ctx, kernel, shape, std::forward<A>(args)...);
}

// What this thread, and those that it has met at a barrier, have written is there for whoever loads the value.
__device__ inline void store_for_peer(uint32_t* to, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ inline uint32_t load_from_peer(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline void look_for_peer() {}
__device__ inline int64_t device_ns() {
  int64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

#endif

// Whether block blockIdx.x of rank r comes to the meeting.
__device__ inline bool await_peer(const Peers& peers, int r, uint32_t meeting) {
  // `lost` lies in the host's memory, a microsecond or two away.
  constexpr int kLooks = 64;
  const uint32_t* flag = peers.flags[peers.rank] + static_cast<int>(blockIdx.x) * kMostPeers + r;
  const int64_t began = device_ns();
  for (int looks = 1;; ++looks) {
    if (static_cast<int32_t>(load_from_peer(flag) - meeting) >= 0) return true;
    if (looks % kLooks == 0) {
      if (load_from_peer(peers.lost) != 0) return false;
      if (device_ns() - began > peers.deadline_ns) {
        store_for_peer(peers.lost, static_cast<uint32_t>(1 + r));
        return false;
      }
    }
    look_for_peer();
  }
}

// The number of this block's next meeting.
__device__ inline uint32_t next_meeting(const Peers& peers) { return peers.meetings[blockIdx.x] + 1; }
// After the last meeting of the kernel, which is the same for all its blocks, by all threads. Blocks that it does not
// have count it too: at the next kernel all have come to as many.
__device__ inline void end_meetings(const Peers& peers, uint32_t last) {
  __syncthreads();
  const int block = static_cast<int>(blockIdx.x + gridDim.x * threadIdx.x);
  if (block < kPeerBlocks) peers.meetings[block] = last;
}

// What the block wrote before is there for the others' blocks after it, and theirs for this one. REQUIRES: at least
// kMostPeers threads, and at most kPeerBlocks blocks. False: a rank did not come.
__device__ inline bool meet_peers(const Peers& peers, uint32_t meeting) {
  __syncthreads();
  const int r = static_cast<int>(threadIdx.x);
  bool came = true;
  if (r < peers.ranks && r != peers.rank) {
    store_for_peer(peers.flags[r] + static_cast<int>(blockIdx.x) * kMostPeers + peers.rank, meeting);
    came = await_peer(peers, r, meeting);
  }
  return __syncthreads_and(came) != 0;
}

}  // namespace ingot::cuda
