// What kernels of several devices hand to each other value by value: every rank writes what it has into the memory of
// all others, where the values say themselves whether they are there. No fence and no flag: one way through memory.
//
// Kernels take two halves in turn. A rank writes into a half for the second time once it has got what the reader
// handed over in the kernel between, which began when the reader had left kNothing behind in that half.
#pragma once

#include "cuda/peers.cuh"

namespace ingot::cuda {

// Pieces of kWidth floats, 4 or 1, so many of each rank. All of a rank's blocks have one of these, by value.
template <int kWidth>
struct PeerHands {
  Peers peers;
  uint32_t pieces = 0;

  // The most that one kernel hands over.
  __host__ __device__ static int64_t most_pieces(int ranks) { return kPeerHandBytes / 16 / ranks; }

  // Which half it is. By every thread, before anything is given.
  __device__ uint32_t turn() const { return __ldcg(turns() + blockIdx.x) & 1; }  // past L1, as next_meeting()

  // Gives a piece to all others.
  __device__ void give(uint32_t turn, uint32_t i, const float (&piece)[kWidth]) const {
    uint4 words = make_uint4(0, 0, 0, 0);
    uint32_t* const word = reinterpret_cast<uint32_t*>(&words);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const uint32_t bits = __float_as_uint(piece[k]);
      word[k] = bits == kNothing ? 0x7fffffffu : bits;
    }
    for (int step = 1; step < peers.ranks; ++step) {
      const int r = (peers.rank + step) % peers.ranks;
      store_words_for_peer(slot(r, peers.rank, turn, i), words);
    }
  }

  // Makes of kPieces pieces of this rank, of the places `i`, the sums over all ranks in their order. A piece beyond
  // `pieces` is left as it is.
  template <int kPieces>
  __device__ void sum(uint32_t turn, const uint32_t (&i)[kPieces], float (&own)[kPieces][kWidth]) const {
    uint4 got[kPieces][kMostPeers] = {};
    take(turn, i, got);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      if (i[p] >= pieces) continue;
      float all[kWidth] = {};
#pragma unroll
      for (int r = 0; r < kMostPeers; ++r) {
        if (r >= peers.ranks) break;
        const uint32_t words[4] = {got[p][r].x, got[p][r].y, got[p][r].z, got[p][r].w};
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          const float one = r == peers.rank ? own[p][k] : __uint_as_float(words[k]);
          all[k] = r == 0 ? one : all[k] + one;
        }
      }
#pragma unroll
      for (int k = 0; k < kWidth; ++k) own[p][k] = all[k];
    }
  }

  // After all, by every thread. Blocks that the kernel does not have count it too.
  __device__ void end(uint32_t turn) const {
    __syncthreads();
    const int block = static_cast<int>(blockIdx.x + gridDim.x * threadIdx.x);
    if (block < kPeerBlocks) turns()[block] = turn + 1;
  }

 private:
  __device__ uint32_t* turns() const {
    return reinterpret_cast<uint32_t*>(reinterpret_cast<std::byte*>(peers.flags[peers.rank]) + kPeerTurnsAt);
  }
  __device__ uint4* slot(int owner, int giver, uint32_t turn, uint32_t i) const {
    std::byte* const half =
        reinterpret_cast<std::byte*>(peers.flags[owner]) + kPeerHandsAt + static_cast<int64_t>(turn) * kPeerHandBytes;
    return reinterpret_cast<uint4*>(half) + static_cast<uint32_t>(giver) * pieces + i;
  }
  __device__ static bool there(const uint4& words) {
    return words.x != kNothing && words.y != kNothing && words.z != kNothing && words.w != kNothing;
  }

  // All at once: each look goes to the second-level cache. Where a rank does not come, whatever is there.
  template <int kPieces>
  __device__ void take(uint32_t turn, const uint32_t (&i)[kPieces], uint4 (&got)[kPieces][kMostPeers]) const {
    const auto wanted = [&](int p, int r) { return r < peers.ranks && r != peers.rank && i[p] < pieces; };
    PeerWait wait;
    for (bool looks = true; looks;) {
      int missing = -1;
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
#pragma unroll
        for (int r = 0; r < kMostPeers; ++r) {
          if (!wanted(p, r)) continue;
          got[p][r] = load_words_from_peer(slot(peers.rank, r, turn, i[p]));
          if (!there(got[p][r])) missing = r;
        }
      }
      looks = missing >= 0 && wait.look_again(peers, missing);
    }
    const uint4 nothing = make_uint4(kNothing, kNothing, kNothing, kNothing);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
#pragma unroll
      for (int r = 0; r < kMostPeers; ++r)
        if (wanted(p, r)) *slot(peers.rank, r, turn, i[p]) = nothing;
    }
  }
};

}  // namespace ingot::cuda
