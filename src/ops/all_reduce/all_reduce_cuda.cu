#include <algorithm>

#include "base/check.h"
#include "cuda/peer_hands.cuh"
#include "ops/all_reduce/all_reduce.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256;

template <int kWidth>
__device__ void load_piece(const float* from, uint32_t i, float (&to)[kWidth]) {
  if constexpr (kWidth == 4) {
    const float4 x = __ldcg(reinterpret_cast<const float4*>(from) + i);
    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
  } else {
    to[0] = __ldcg(from + i);
  }
}
template <int kWidth>
__device__ void store_piece(float* to, uint32_t i, const float (&x)[kWidth]) {
  if constexpr (kWidth == 4) {
    reinterpret_cast<float4*>(to)[i] = make_float4(x[0], x[1], x[2], x[3]);
  } else {
    to[i] = x[0];
  }
}

// Every rank gives all it has to all others, and adds what all have.
template <int kWidth>
__global__ __launch_bounds__(kThreads, 1) void reduce_handed_kernel(const __grid_constant__ PeerHands<kWidth> hands,
                                                                    const float* x, float* out) {
  let_next_begin();
  wait_for_inputs();
  const uint32_t turn = hands.turn(), step = gridDim.x * kThreads, first = blockIdx.x * kThreads + threadIdx.x;
  for (uint32_t i = first; i < hands.pieces; i += step) {
    float piece[kWidth];
    load_piece(x, i, piece);
    hands.give(turn, i, piece);
  }
  for (uint32_t i = first; i < hands.pieces; i += step) {
    const uint32_t at[1] = {i};
    float sum[1][kWidth];
    load_piece(x, i, sum[0]);
    hands.sum(turn, at, sum);
    store_piece(out, i, sum[0]);
  }
  hands.end(turn);
}

// Each adds a share of what all have where it lies, between two meetings, and gives the sums to all.
template <int kWidth>
__global__ __launch_bounds__(kThreads) void reduce_in_place_kernel(const __grid_constant__ Peers peers, const float* x,
                                                                   float* out, uint32_t pieces) {
  let_next_begin();
  wait_for_inputs();
  const auto places = [&](int owner) {
    return reinterpret_cast<PeerPlace*>(reinterpret_cast<std::byte*>(peers.flags[owner]) + kPeerPlacesAt) +
           blockIdx.x * kMostPeers;
  };
  if (static_cast<int>(threadIdx.x) < peers.ranks)
    places(static_cast<int>(threadIdx.x))[peers.rank] = {reinterpret_cast<const std::byte*>(x),
                                                         reinterpret_cast<std::byte*>(out)};
  const uint32_t meeting = next_meeting(peers);
  if (meet_peers(peers, meeting)) {  // else their memory may be gone
    const float* from[kMostPeers];
    float* to[kMostPeers];
#pragma unroll
    for (int r = 0; r < kMostPeers; ++r) {
      if (r >= peers.ranks) break;
      const uint4 place = load_words_from_peer(reinterpret_cast<const uint4*>(places(peers.rank) + r));
      from[r] = reinterpret_cast<const float*>(uint64_t{place.y} << 32 | place.x);
      to[r] = reinterpret_cast<float*>(uint64_t{place.w} << 32 | place.z);
    }
    const uint64_t shares = uint64_t{gridDim.x} * peers.ranks, own = uint64_t{gridDim.x} * peers.rank + blockIdx.x;
    const auto begin = static_cast<uint32_t>(pieces * own / shares);
    const auto end = static_cast<uint32_t>(pieces * (own + 1) / shares);
    for (uint32_t i = begin + threadIdx.x; i < end; i += kThreads) {
      float of_all[kMostPeers][kWidth];
#pragma unroll
      for (int r = 0; r < kMostPeers; ++r)
        if (r < peers.ranks) load_piece(from[r], i, of_all[r]);
#pragma unroll
      for (int r = 1; r < kMostPeers; ++r) {
        if (r >= peers.ranks) break;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) of_all[0][k] += of_all[r][k];
      }
#pragma unroll
      for (int r = 0; r < kMostPeers; ++r)
        if (r < peers.ranks) store_piece(to[r], i, of_all[0]);
    }
  }
  meet_peers(peers, meeting + 1);
  end_meetings(peers, meeting + 1);
}

template <int kWidth>
void launch_reduce(const Peers& peers, const float* x, float* out, int64_t pieces, Ctx& ctx) {
  CHECK(pieces < int64_t{1} << 31, "{} pieces", pieces);
  const int64_t most = PeerHands<kWidth>::most_pieces(peers.ranks);
  const auto blocks = [](int64_t n, int64_t of_thread) {
    return dim3(static_cast<unsigned>(std::clamp<int64_t>(ceil_div(n, kThreads * of_thread), 1, kPeerBlocks)));
  };
  if (peers.direct && pieces > most) {
    const Launch shape{.grid = blocks(pieces / peers.ranks, 4), .threads = dim3(kThreads)};
    return launch_peers(ctx, reduce_in_place_kernel<kWidth>, shape, peers, x, out, static_cast<uint32_t>(pieces));
  }
  for (int64_t first = 0; first < pieces; first += most) {
    const PeerHands<kWidth> hands{.peers = peers, .pieces = static_cast<uint32_t>(std::min(most, pieces - first))};
    const Launch shape{.grid = blocks(hands.pieces, 1), .threads = dim3(kThreads)};
    launch_peers(ctx, reduce_handed_kernel<kWidth>, shape, hands, x + first * kWidth, out + first * kWidth);
  }
}

}  // namespace

void run(const AllReduce& op, Ctx& ctx) {
  CHECK(ctx.peers != nullptr && op.x.stride == op.x.cols && op.out.stride == op.out.cols, "rows with gaps");
  CHECK(op.x.dtype == DType::kF32 && op.out.dtype == DType::kF32, "sums over ranks are f32");
  const int64_t count = ctx.rows(op.out) * op.out.cols;
  if (count == 0) return;
  const auto* x = reinterpret_cast<const float*>(op.x.data);
  auto* out = reinterpret_cast<float*>(op.out.data);
  // All ranks choose alike: places differ, so they may not.
  if (op.out.cols % 4 == 0) return launch_reduce<4>(*ctx.peers, x, out, count / 4, ctx);
  launch_reduce<1>(*ctx.peers, x, out, count, ctx);
}

}  // namespace ingot::cuda
