// The kernel of expert_one.cuh.
//
// A block per multiprocessor, all at once. Each makes the logits of some experts, and then the choice for itself. Its
// share of gate and up are 16 packed rows at a time, some of one or two experts, and of the result 16 columns of all
// experts, so that the sum over places stays in the block. Its warps share the columns of each, and have a ring of
// weights each (stream_kernel.cuh) that goes from one part to the other without a stop. The order of all sums depends
// on the sizes alone.
#pragma once

#include <algorithm>

#include "cuda/activate.cuh"
#include "cuda/blocks.cuh"
#include "cuda/elements.cuh"
#include "matmul/cuda/experts/experts.cuh"
#include "matmul/cuda/stream/piece_ring.cuh"
#include "ops/expert_linear/expert_one.cuh"

namespace ingot::cuda {
namespace {

// Gate and up of one format, down of another.
template <class G, class D>
inline constexpr int kOnePiece = G::kBytes > D::kBytes ? G::kBytes : D::kBytes;
// No other block is beside this one: what comes before and after it are kernels of a block for each multiprocessor,
// too.
inline constexpr int kOneRing = 160 << 10;
template <class G, class D>
inline constexpr int kOneStages = std::clamp(kOneRing / (kPieceWarps * kOnePiece<G, D>), 2, 12);

__host__ __device__ constexpr int routers_of_block(int count, int blocks) { return (count + blocks - 1) / blocks; }

// Where a block has what. The router's rows and the norm's weight give way to what down meets and to sums.
struct OneRoom {
  int experts = 0, weights, turn, part, ends, choice, x, router, values, taken, sums, total;

  __host__ __device__ OneRoom(const ExpertOneArgs& args, int blocks) {
    const int rows = routers_of_block(args.count, blocks), cols = args.x.cols;
    const int halves = 2 * max_of(most_of_share(args.to.used * args.outputs / 16, blocks),
                                  most_of_share(args.shared_outputs / 16, blocks));
    weights = kMostExpertsUsed * 4;
    turn = weights + kMostExpertsUsed * 4;
    part = turn + 16;
    ends = part + (rows + 1) * kSumRow * 4;
    choice = (ends + 2 * 16 * kSumRow * 4 + 15) / 16 * 16;
    x = (choice + args.count * kRouterBytes + 15) / 16 * 16;
    router = x + args.up.units * kStreamCols * 2;
    values = router + rows * cols * 4;
    taken = router;
    sums = taken + args.values() * 2;
    total = max_of(values + cols * 4, sums + halves * 16 * kSumRow * 4);
  }
  __host__ __device__ static constexpr int max_of(int a, int b) { return a > b ? a : b; }
};

// Of the block's share of gate and up a warp asks for two pieces at a time, of packed rows one after another, for those
// that every row meets first; then of down one by one. Chunk c is warp c % kPieceWarps'.
template <class G, class D>
struct OneRing : PieceRing<OneRing<G, D>, kOnePiece<G, D>, kOneStages<G, D>> {
  const ExpertOneArgs& args;
  const int32_t* experts = nullptr;  // the chosen, when they are known
  // What is asked for next.
  PieceShare shared, share;
  int chunk, second = 0;
  int tile, piece;

  __device__ OneRing(const ExpertOneArgs& of, std::byte* ring, const PieceShare& all_meet, const PieceShare& chosen)
      : PieceRing<OneRing<G, D>, kOnePiece<G, D>, kOneStages<G, D>>(ring), args(of), shared(all_meet), share(chosen) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp >= args.up.chunks) shared.first = shared.end, share.first = share.end;
    tile = warp < down_pieces() ? static_cast<int>(blockIdx.x) : args.tiles;
    chunk = piece = warp;
  }
  __device__ int down_pieces() const { return args.to.used * args.down.chunks + args.shared_down.chunks; }

  // False: nothing is left, or not known yet.
  __device__ bool ask() {
    if (shared.first < shared.end) return ask_up(shared, true);
    if (experts == nullptr) return false;
    if (share.first < share.end) return ask_up(share, false);
    if (tile >= args.tiles) return false;
    if (threadIdx.x % 32 == 0) {
      const int place = piece / args.down.chunks, of_all = piece - args.to.used * args.down.chunks;
      this->copy(of_all >= 0 ? place_of<D>(args.shared_down, 0, tile, of_all)
                             : place_of<D>(args.down, experts[place], tile, piece - place * args.down.chunks),
                 D::kBytes);
    }
    piece += kPieceWarps;
    if (piece >= down_pieces()) {
      piece = static_cast<int>(threadIdx.x) / 32;
      tile += static_cast<int>(gridDim.x);
    }
    return true;
  }

 private:
  template <class W>
  __device__ static const std::byte* place_of(const OneMatrix& m, int expert, int sixteen, int chunk) {
    const int tile = sixteen / m.sixteens, in_tile = sixteen - tile * m.sixteens;
    return m.weights + expert * m.stride + ((int64_t{tile} * m.chunks + chunk) * m.sixteens + in_tile) * W::kBytes;
  }
  // Shares are of whole pairs. Where a pair lies together, as in a tile of 32 rows, one copy brings both.
  __device__ bool ask_up(PieceShare& of, bool every_row) {
    if (threadIdx.x % 32 == 0) {
      const int sixteen = of.first + second, of_expert = args.outputs / 8;
      const int place = every_row ? 0 : sixteen / of_expert;
      const OneMatrix& m = every_row ? args.shared_up : args.up;
      const bool together = kOnePiece<G, D> == G::kBytes && m.sixteens == 2;
      const std::byte* from = every_row ? place_of<G>(m, 0, sixteen, chunk)
                                        : place_of<G>(m, experts[place], sixteen - place * of_expert, chunk);
      this->copy(from, !together ? G::kBytes : second == 0 ? 2 * G::kBytes : 0);
    }
    second ^= 1;
    if (second != 0) return true;
    chunk += kPieceWarps;
    if (chunk >= args.up.chunks) chunk = static_cast<int>(threadIdx.x) / 32, of.first += 2;
    return true;
  }
};

// Pairs of words that other blocks hand over, to shared memory, by the threads [first, first + threads).
template <int N>
__device__ void take_pairs(const uint32_t* handed, uint32_t* to, int pairs, int thread, int threads) {
  const auto* from = reinterpret_cast<const uint64_t*>(handed);
  for (int i = thread; i < pairs; i += N * threads) {
    uint64_t v[N] = {};
    for (bool missing = true; missing;) {
      missing = false;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const int at = i + k * threads;
        if (at < pairs) v[k] = look(from + at);
        missing = missing || static_cast<uint32_t>(v[k]) == kNothing || v[k] >> 32 == kNothing;
      }
      if (missing) look_again();
    }
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (i + k * threads < pairs) reinterpret_cast<uint64_t*>(to)[i + k * threads] = v[k];
  }
}

// A word that means something, whatever its bits.
__device__ inline uint32_t handed_word(uint32_t bits) { return bits == kNothing ? 0x7fff7fffu : bits; }

// The router's rows of this block's experts and the norm's weight on their way to shared memory.
__device__ inline void ask_for_router(const ExpertOneArgs& args, float4* router, float4* values) {
  const int fours = args.x.cols / 4;
  for (int e = static_cast<int>(blockIdx.x), at = 0; e < args.count; e += static_cast<int>(gridDim.x), at += fours)
    for (int i = static_cast<int>(threadIdx.x); i < fours; i += kPieceThreads)
      copy_async(router + at + i, args.router + int64_t{e} * args.x.cols + i * 4);
  for (int i = static_cast<int>(threadIdx.x); i < fours && args.norm != nullptr; i += kPieceThreads)
    copy_async(values + i, args.norm + i * 4);
  commit_copies();
}

// This block's logits to all, and the normed row as bf16 to `x`.
__device__ inline void make_logits(const ExpertOneArgs& args, const float4* router, float4* values, float* part,
                                   std::byte* x, uint32_t* handed) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int fours = args.x.cols / 4, first = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  const int own = first < args.count ? (args.count - first + blocks - 1) / blocks : 0;
  const auto* from = reinterpret_cast<const float4*>(args.x.row(0));
  float squares = 0;
  // Asked for before the router's rows have come.
  float4 asked = thread < fours ? from[thread] : make_float4(0, 0, 0, 0);
  copies_done<0>();
  __syncthreads();
  for (int i = thread; i < fours; i += kPieceThreads) {
    float4 v = i == thread ? asked : from[i];
    if (args.norm != nullptr) {
      const float4 norm = values[i];
      squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
      v.x *= norm.x, v.y *= norm.y, v.z *= norm.z, v.w *= norm.w;
    }
    values[i] = v;
  }
  squares = warp_sum(squares);
  if (lane == 0) part[warp] = squares;
  for (int e = 0; e < own; ++e) {
    float sum = 0;
    for (int i = thread; i < fours; i += kPieceThreads) {
      const float4 v = values[i], w = router[e * fours + i];
      sum = __fmaf_rn(v.x, w.x, sum);
      sum = __fmaf_rn(v.y, w.y, sum);
      sum = __fmaf_rn(v.z, w.z, sum);
      sum = __fmaf_rn(v.w, w.w, sum);
    }
    sum = warp_sum(sum);
    if (lane == 0) part[(1 + e) * kSumRow + warp] = sum;
  }
  __syncthreads();
  float all = 0, sum = 0;
#pragma unroll
  for (int w = 0; w < kPieceWarps; ++w) all += part[w];
  const float scale = args.norm != nullptr ? inverse_root(all, args.x.cols, args.eps) : 1.0f;
  for (int e = thread; e < own; e += kPieceThreads) {
    sum = 0;
#pragma unroll
    for (int w = 0; w < kPieceWarps; ++w) sum += part[(1 + e) * kSumRow + w];
    sum *= scale;
    const int expert = first + e * blocks;
    if (args.router_bias != nullptr) sum += args.router_bias[expert];
    publish(handed + expert, handed_word(__float_as_uint(sum)));
  }
  for (int i = thread; i < fours; i += kPieceThreads) {
    float4 v = values[i];
    v.x *= scale, v.y *= scale, v.z *= scale, v.w *= scale;
    reinterpret_cast<uint2*>(x)[i] = make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
    if (args.normed.data == nullptr || i % blocks != first) continue;
    const Four normed{{v.x, v.y, v.z, v.w}};
    store_four(args.normed.row(0), i, args.normed.dtype, normed);
  }
}

// Whether the choice needs no more than each expert's own logit, and so comes before the weights.
__device__ inline bool chooses_first(const ExpertOneArgs& args) {
  return args.spec.score != RouterScore::kSparsemixer && args.spec.groups == 1 && args.count <= 8 * kLanes &&
         (args.choice_bias == nullptr || args.spec.score == RouterScore::kSigmoid);
}

__device__ inline bool is_bad(const float* logits, int count) {
  bool bad = false;
  for (int e = lane_of_warp(); e < count; e += kLanes) bad = bad || !isfinite(logits[e]);
  return __any_sync(0xffffffffu, bad) != 0;
}

// Which experts the row meets, to shared memory, by one warp. `room`: kRouterBytes for each expert.
__device__ inline void choose_for_block(const ExpertOneArgs& args, const uint32_t* handed, float* room,
                                        int32_t* experts, float* weights) {
  const int lane = lane_of_warp(), count = args.count;
  take_pairs<2>(handed, reinterpret_cast<uint32_t*>(room), count / 2, lane, kLanes);
  if (count % 2 != 0 && lane == 0) {
    uint32_t last = look(handed + count - 1);
    for (; last == kNothing; last = look(handed + count - 1)) look_again();
    room[count - 1] = __uint_as_float(last);
  }
  __syncwarp();
  if (!chooses_first(args))
    return choose_experts(count, 0, args.choice_bias, {experts, weights, 0, 0, args.to.used}, args.spec, room);
  if (is_bad(room, count)) {
    for (int j = lane; j < args.to.used; j += kLanes) experts[j] = j;
    return;
  }
  float* keys = room;
  if (args.choice_bias != nullptr) {
    keys = room + count;
    for (int e = lane; e < count; e += kLanes)
      keys[e] = activate<ActivationKind::kSigmoid>(room[e]) + args.choice_bias[e];
  }
  const uint32_t mine = count <= 4 * kLanes ? detail::best_by_lane<4>(keys, count, args.to.used)
                                            : detail::best_by_lane<8>(keys, count, args.to.used);
  for (int first = 0, before = 0; first < count; first += kLanes) {
    const bool is_chosen = (mine >> first / kLanes & 1) != 0;
    const uint32_t chosen = __ballot_sync(0xffffffffu, is_chosen);
    if (is_chosen) experts[before + __popc(chosen & ((1u << lane) - 1))] = first + lane;
    before += __popc(chosen);
  }
}

// Their weights, while others' values are on their way.
__device__ inline void weigh_chosen(const ExpertOneArgs& args, const float* logits, const int32_t* experts,
                                    float* weights) {
  if (!chooses_first(args)) return;
  const int lane = lane_of_warp(), used = args.to.used;
  const bool bad = is_bad(logits, args.count), sigmoid = args.spec.score == RouterScore::kSigmoid;
  float largest = -INFINITY, all = 0, chosen = 0;
  for (int e = lane; e < args.count; e += kLanes) largest = fmaxf(largest, logits[e]);
  largest = warp_max(largest);
  for (int e = lane; e < args.count; e += kLanes) all += expf(logits[e] - largest);
  all = warp_sum(all);
  for (int j = lane; j < used; j += kLanes) {
    const float logit = logits[experts[j]];
    weights[j] = sigmoid ? activate<ActivationKind::kSigmoid>(logit) : expf(logit - largest) / all;
    chosen += weights[j];
  }
  chosen = warp_sum(chosen);
  const float by = args.spec.renormalize ? fmaxf(chosen, args.spec.least_sum) : 1.0f;
  for (int j = lane; j < used; j += kLanes) weights[j] = bad ? NAN : weights[j] / by * args.spec.scale;
}

// f(gate) · up of a share of the packed rows, from the sums of the block's warps, to all.
__device__ inline void hand_over_glu(const ExpertOneArgs& args, const PieceShare& share, const float* sums,
                                     uint32_t* handed) {
  const int count = share.count() * 8;
  for (int begin = 0; begin < count * 4; begin += kPieceThreads) {
    const int i = begin + static_cast<int>(threadIdx.x), o = i / 4;
    if (i / 32 * 32 >= count * 4) break;
    float gate = 0, up = 0;
    if (o < count) {
      const float* from = sums + (o / 8 * 16 + o % 8) * kSumRow + i % 4 * (kPieceWarps / 4);
#pragma unroll
      for (int w = 0; w < kPieceWarps / 4; ++w) gate += from[w], up += from[8 * kSumRow + w];
    }
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
      gate += __shfl_xor_sync(0xffffffffu, gate, d);
      up += __shfl_xor_sync(0xffffffffu, up, d);
    }
    const float value = gated_by(args.glu, gate, up), next = __shfl_down_sync(0xffffffffu, value, 4);
    // 16 packed rows are 8 outputs, of one expert after another.
    if (o < count && i % 8 == 0) publish(handed + share.first * 4 + o / 2, handed_word(pack_bf16(value, next)));
  }
}

// The end of 16 columns, by one warp: the sum over warps, the residual, the next norm's part.
__device__ inline void finish_columns(const ExpertOneArgs& args, int tile, float residual, float weight,
                                      const float* sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, o = lane / 2, col = tile * 16 + o;
  float value = 0;
#pragma unroll
  for (int w = 0; w < kPieceWarps / 2; ++w) value += sums[o * kSumRow + lane % 2 * (kPieceWarps / 2) + w];
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  value += residual;
  if (lane % 2 == 0) args.out.set(0, col, value);
  if (args.next.weight == nullptr) return;
  if (lane % 2 == 0) args.next.x.set(0, col, value * weight);
  float squares = value * value;
#pragma unroll
  for (int d = 2; d < 32; d *= 2) squares += __shfl_xor_sync(0xffffffffu, squares, d);
  if (lane == 0) args.next.squares[tile] = squares;
}

// A share of gate and up, its sums of each warp to `sums`.
template <class G, class D>
__device__ void multiply_up(const ExpertOneArgs& args, OneRing<G, D>& ring, const std::byte* x, const PieceShare& share,
                            float* sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = 0; i < share.count(); i += 2) {
    float acc[2][1][4] = {};
    for (int c = warp; c < args.up.chunks; c += kPieceWarps) {
      const std::byte* first_piece = ring.take();
      const std::byte* pieces[2] = {first_piece, ring.take(1)};
      multiply_chunk<G, 2, 1>(
          pieces, [&](int u, uint4(&to)[1]) { to[0] = unit_of<G>(x, c * G::kUnits + u, args.up.units); }, lane, acc);
      __syncwarp();
      ring.give_back(2);
    }
    leave_sums<G>(acc[0][0], 0, sums + i * 16 * kSumRow);
    leave_sums<G>(acc[1][0], 0, sums + (i + 1) * 16 * kSumRow);
  }
}

// 16 columns of all places, each times its weight.
template <class G, class D>
__device__ void multiply_down(const ExpertOneArgs& args, OneRing<G, D>& ring, const std::byte* taken,
                              const float* weights, float* sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int of_places = args.to.used * args.down.chunks;
  float total[4] = {};
  for (int p = warp; p < ring.down_pieces(); p += kPieceWarps) {
    const bool every_row = p >= of_places;
    const int place = every_row ? args.to.used : p / args.down.chunks, c = p - place * args.down.chunks;
    const int units = every_row ? args.shared_down.units : args.down.units;
    const std::byte* row = taken + place * args.outputs * 2;
    float acc[1][1][4] = {};
    const std::byte* pieces[1] = {ring.take()};
    multiply_chunk<D, 1, 1>(
        pieces, [&](int u, uint4(&to)[1]) { to[0] = unit_of<D>(row, c * D::kUnits + u, units); }, lane, acc);
    __syncwarp();
    ring.give_back(1);
    const float by = every_row ? 1.0f : weights[place];
#pragma unroll
    for (int i = 0; i < 4; ++i) total[i] = __fmaf_rn(by, acc[0][0][i], total[i]);
  }
  leave_sums<D>(total, 0, sums);
}

// The block's columns of the result. `ends`: sums of two times 16 rows.
template <class G, class D>
__device__ void finish_tiles(const ExpertOneArgs& args, OneRing<G, D>& ring, const std::byte* taken,
                             const float* weights, float* ends) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = lane_of_warp();
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  for (int tile = block; tile < args.tiles; tile += blocks) {
    float* end = ends + tile / blocks % 2 * 16 * kSumRow;
    const int col = tile * 16 + lane / 2;
    float residual = 0, weight = 0;
    if (warp == 0 && args.residual.data != nullptr) residual = args.residual.get(0, col);
    if (warp == 0 && args.next.weight != nullptr) weight = args.next.weight[col];
    multiply_down<G, D>(args, ring, taken, weights, end);
    __syncthreads();
    if (warp == 0) finish_columns(args, tile, residual, weight, end);
  }
}

template <class G, class D>
__global__ void __launch_bounds__(kPieceThreads, 1) expert_one(const __grid_constant__ ExpertOneArgs args) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  const OneRoom room(args, blocks);
  std::byte* ring_memory = shared_memory<std::byte>();
  std::byte* memory = ring_memory + OneRing<G, D>::kAll + OneRing<G, D>::kBarriers;
  auto* experts = reinterpret_cast<int32_t*>(memory + room.experts);
  auto* weights = reinterpret_cast<float*>(memory + room.weights);
  auto* turn = reinterpret_cast<uint32_t*>(memory + room.turn);
  auto* router = reinterpret_cast<float4*>(memory + room.router);
  auto* values = reinterpret_cast<float4*>(memory + room.values);
  auto* taken = memory + room.taken;
  auto* sums = reinterpret_cast<float*>(memory + room.sums);
  std::byte* x = memory + room.x;

  const PieceShare shared = PieceShare::of(args.shared_outputs / 16, 2),
                   share = PieceShare::of(args.to.used * args.outputs / 16, 2);
  ask_for_router(args, router, values);
  if (thread == 0) {
    // All blocks of a launch have begun before one of the next with this route does.
    *turn = static_cast<uint32_t>(atomicAdd(args.begun, 1ull) / gridDim.x % 2);
    let_next_begin();
  }
  OneRing<G, D> ring(args, ring_memory, shared, share);
  ring.fill();
  __syncthreads();
  wait_for_inputs();
  uint32_t* handed = args.handed + *turn * args.words();
  uint32_t* others = args.handed + (1 - *turn) * args.words();
  uint32_t* places = handed + args.logit_words();
  for (int i = block * kPieceThreads + thread; i < args.words(); i += blocks * kPieceThreads) others[i] = kNothing;

  make_logits(args, router, values, reinterpret_cast<float*>(memory + room.part), x, handed);
  if (args.shared_outputs > 0) {
    __syncthreads();
    multiply_up<G, D>(args, ring, x, shared, sums);
    __syncthreads();
    hand_over_glu(args, shared, sums, places + args.to.used * args.outputs / 2);
  }
  auto* choice = reinterpret_cast<float*>(memory + room.choice);
  if (warp == 0) choose_for_block(args, handed, choice, experts, weights);
  __syncthreads();
  ring.experts = experts;
  ring.fill();
  multiply_up<G, D>(args, ring, x, share, sums);
  __syncthreads();
  hand_over_glu(args, share, sums, places);
  if (warp == 0) weigh_chosen(args, choice, experts, weights);
  take_pairs<4>(places, reinterpret_cast<uint32_t*>(taken), args.values() / 4, thread, kPieceThreads);
  __syncthreads();
  if (block == 0 && thread < args.to.used) {
    args.to.experts[thread] = experts[thread];
    args.to.weights[thread] = weights[thread];
  }
  finish_tiles<G, D>(args, ring, taken, weights, reinterpret_cast<float*>(memory + room.ends));
}

}  // namespace

template <class G, class D>
int64_t one_shared(const ExpertOneArgs& args, int blocks) {
  return OneRing<G, D>::kAll + OneRing<G, D>::kBarriers + OneRoom(args, blocks).total;
}

template <class G, class D>
void run_one_formats(const ExpertOneArgs& given, const DeviceCtx& ctx) {
  ExpertOneArgs args = given;
  args.up.chunks = static_cast<int>(stream_chunks(int64_t{args.up.units} * kStreamCols, G::kUnits));
  args.down.chunks = static_cast<int>(stream_chunks(int64_t{args.down.units} * kStreamCols, D::kUnits));
  args.shared_up.chunks = args.shared_outputs > 0 ? args.up.chunks : 0;
  args.shared_down.chunks = static_cast<int>(stream_chunks(int64_t{args.shared_down.units} * kStreamCols, D::kUnits));
  launch(ctx, expert_one<G, D>,
         {dim3(ctx.multiprocessors), dim3(kPieceThreads), one_shared<G, D>(args, ctx.multiprocessors), true}, args);
}

// In each file that makes kernels for some formats.
#define INGOT_ONE_KERNELS(UP, DOWN)                                                                         \
  template void run_one_formats<Stream##UP, Stream##DOWN>(const ExpertOneArgs& args, const DeviceCtx& ctx); \
  template int64_t one_shared<Stream##UP, Stream##DOWN>(const ExpertOneArgs& args, int blocks);

}  // namespace ingot::cuda
