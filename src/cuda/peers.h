// Kernels of several devices that meet: memory of each that all others reach, as a kernel is given it by value.
//
// A meeting is one of blocks with the same index of the same kernel on all ranks: each tells the others by a flag in
// their memory, and waits for theirs in its own. Meetings of a block have numbers that the device counts, so a graph is
// given again without a reset. A rank that does not come within the deadline is reported in `lost`, and from then on
// nobody waits: kernels go on with whatever is there, and the step has failed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot::cuda {

inline constexpr int kMostPeers = 8;      // GPUs of a machine
inline constexpr int kPeerBlocks = 32;    // of a kernel that meets others: enough to fill a link
inline constexpr uint32_t kNobody = ~0u;  // in `lost`: the host has given up

struct Peers {
  int rank = 0, ranks = 1;
  bool direct = true;                 // all memory of a device is reached by the others, not what is below alone
  uint32_t* flags[kMostPeers] = {};   // of each rank: [kPeerBlocks, kMostPeers], the last meeting that each came to
  std::byte* stage[kMostPeers] = {};  // of each rank: two halves, in turn by the number of the meeting
  int64_t stage_bytes = 0;            // of one half
  uint32_t* meetings = nullptr;       // [kPeerBlocks] that this rank's blocks have come to
  uint32_t* lost = nullptr;           // pinned: 0, or 1 + the rank that did not come
  int64_t deadline_ns = 0;
};

}  // namespace ingot::cuda
