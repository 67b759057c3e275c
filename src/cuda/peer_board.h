// How the memory by which devices meet is laid out: each rank has such a board, all others reach it, and Peers::flags
// is where it begins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/peers.h"

namespace ingot::cuda {

// Where a rank's values lie in a kernel that reads them in place: told to the others before they meet.
struct alignas(16) PeerPlace {
  const std::byte* x = nullptr;
  std::byte* out = nullptr;
};

// A row of the largest vocabularies, 262,144, in f32.
inline constexpr int64_t kPeerStageBytes = 1 << 20;
// 32 rows of 4,096 values of four ranks.
inline constexpr int64_t kPeerHandBytes = 2 << 20;

inline constexpr int64_t kPeerMeetingsAt = kPeerBlocks * kMostPeers * 4;    // behind the flags
inline constexpr int64_t kPeerTurnsAt = kPeerMeetingsAt + kPeerBlocks * 4;  // [kPeerBlocks] turns of hands
inline constexpr int64_t kPeerPlacesAt = (kPeerTurnsAt + kPeerBlocks * 4 + 255) / 256 * 256;
inline constexpr int64_t kPeerStageAt =  // [kPeerBlocks, kMostPeers] places before it
    (kPeerPlacesAt + kPeerBlocks * kMostPeers * static_cast<int64_t>(sizeof(PeerPlace)) + 255) / 256 * 256;
// Two halves, in turn: kNothing wherever nothing is handed over.
inline constexpr int64_t kPeerHandsAt = kPeerStageAt + 2 * kPeerStageBytes;
inline constexpr int64_t kPeerBoardBytes = kPeerHandsAt + 2 * kPeerHandBytes;

}  // namespace ingot::cuda
