// Meetings of kernels of several devices (peers.h), and values that they hand to each other. Such kernels have no
// __shared__ memory but what shared_memory() gives: on the host others run while they wait.
#pragma once

#include "cuda/kernel.cuh"
#include "cuda/peer_board.h"
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
inline void store_words_for_peer(uint4* to, const uint4& words) { *to = words; }
inline uint4 load_words_from_peer(const uint4* from) { return *from; }
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
// Words that say themselves whether they are there: nothing else is ordered by them.
__device__ inline void store_words_for_peer(uint4* to, const uint4& words) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w)
               : "memory");
}
__device__ inline uint4 load_words_from_peer(const uint4* from) {
  uint4 words;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from)
               : "memory");
  return words;
}
__device__ inline void look_for_peer() {}
__device__ inline int64_t device_ns() {
  int64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

#endif

// How long a thread looks for what another rank shall write.
class PeerWait {
 public:
  // Nothing has come from rank r: whether to look again.
  __device__ bool look_again(const Peers& peers, int r) {
    constexpr int kLooks = 64;  // `lost` lies in the host's memory, a microsecond or two away
    if (++looks_ % kLooks == 0 && !goes_on(peers, r)) return false;
    look_for_peer();
    return true;
  }

 private:
  __device__ bool goes_on(const Peers& peers, int r) {
    const int64_t now = device_ns();
    if (began_ == 0) began_ = now;
    if (load_from_peer(peers.lost) != 0) return false;
    if (now - began_ <= peers.deadline_ns) return true;
    store_for_peer(peers.lost, static_cast<uint32_t>(1 + r));
    return false;
  }

  int looks_ = 0;
  int64_t began_ = 0;
};

// Whether block blockIdx.x of rank r comes to the meeting.
__device__ inline bool await_peer(const Peers& peers, int r, uint32_t meeting) {
  const uint32_t* flag = peers.flags[peers.rank] + static_cast<int>(blockIdx.x) * kMostPeers + r;
  for (PeerWait wait; static_cast<int32_t>(load_from_peer(flag) - meeting) < 0;)
    if (!wait.look_again(peers, r)) return false;
  return true;
}

// The number of this block's next meeting. Past the L1 cache: a kernel that has begun before the last one read its
// numbers on the same multiprocessor would find those there.
__device__ inline uint32_t next_meeting(const Peers& peers) { return __ldcg(peers.meetings + blockIdx.x) + 1; }
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
