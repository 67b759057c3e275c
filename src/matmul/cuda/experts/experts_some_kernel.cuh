// The kernel of tiles of up to 16 places: as in the streaming kernel a warp unpacks 32 rows of the weights for the
// matrix instruction and scales the sums of groups in f32, but it has all columns of its rows, and the block's warps
// meet the same x, which comes through shared memory in the order of lanes, with its sums. So a weight is unpacked once
// for 16 places, nobody adds what warps have, and two blocks of a multiprocessor wait for each other's latencies.
#pragma once

#include "matmul/cuda/experts/experts_some.cuh"
#include "matmul/cuda/tall/tall_end.cuh"

// As stream_runs(): others need not find registers for it.
#if defined(INGOT_CUDA_EMULATED) || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)
#define INGOT_HAS_SOME 1
#else
#define INGOT_HAS_SOME 0
#endif

namespace ingot::cuda {
namespace {

// Of a block. Four warps, and twice as many blocks, are as fast; one sixteen for each warp takes 10 % longer, four
// octets 12 %: the registers are fewer then, or warps.
constexpr int kSomeWarps = 8, kSomeBlocks = 2;
constexpr int kSomeSixteens = 2;  // of weights, of a warp
constexpr int kSomeOctets = kSomeTile / 8;
constexpr int kSomeStages = 2;  // chunks of weights of each warp on their way; three took 1 us more
constexpr int kSomeXStages = 6, kSomeXBehind = 3;

template <class W>
struct SomeShape {
  static constexpr int kXStage = W::kUnits * kSomeOctets * SomeX<W>::kOctet;
  static constexpr int kChunk = kSomeSixteens * W::kBytes;
  static constexpr int kRing = kSomeXStages * kXStage;
  static constexpr int kBarriers = kRing + kSomeWarps * kSomeStages * kChunk;
  static constexpr int kShared =
      kBarriers + (2 * kSomeXStages + kSomeWarps * kSomeStages) * static_cast<int>(sizeof(CopyBarrier));
};

// The chunks of a warp's rows, on their way.
template <int kChunk>
struct SomeRing {
  std::byte* memory;
  CopyBarrier* barriers;
  const std::byte* from;
  int64_t apart;  // bytes between chunks
  int left;       // to ask for
  int stage = 0;
  uint32_t parity = 0;

  __device__ void begin(int lane) {
    if (lane == 0) {
      for (int i = 0; i < kSomeStages; ++i) barrier_init(barriers + i, 1);
      barrier_inits_done();
    }
    __syncwarp();
    for (int i = 0; i < kSomeStages; ++i) fetch(i, lane);
  }
  __device__ const std::byte* take() const {
    barrier_wait(barriers + stage, parity);
    return memory + stage * kChunk;
  }
  // All lanes have read it.
  __device__ void give_back(int lane) {
    fetch(stage, lane);
    if (++stage == kSomeStages) stage = 0, parity ^= 1;
  }

 private:
  __device__ void fetch(int to, int lane) {
    if (left == 0) return;
    if (lane == 0) {
      barrier_expect(barriers + to, kChunk);
      copy_bulk(memory + to * kChunk, from, kChunk, barriers + to);
    }
    from += apart;
    --left;
  }
};

// Takes a chunk's mins off: by one product for all of its groups.
template <class W, int M, int J>
__device__ __forceinline__ void take_mins(const typename W::Scales::Row (&rows)[M][2], const std::byte* at, int lane,
                                          float (&sums)[M][J][4]) {
  uint32_t b[J][2];
#pragma unroll
  for (int j = 0; j < J; ++j) {
    const uint2 v = *reinterpret_cast<const uint2*>(at + (lane / 8 * J + j) * SomeX<W>::kOctet + 512 + lane % 8 * 8);
    b[j][0] = v.x, b[j][1] = v.y;
  }
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const uint32_t even = W::Scales::min_codes(rows[m][0], lane % 2), odd = W::Scales::min_codes(rows[m][1], lane % 2);
    const uint32_t a[4] = {even, odd, even, odd};
    const float by[2] = {-rows[m][0].dmin, -rows[m][1].dmin * power_of_two(W::kOdd)};
#pragma unroll
    for (int j = 0; j < J; ++j) {
      float of[4] = {};
      multiply_bf16(of, a, b[j]);
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[m][j][e] = __fmaf_rn(by[e / 2], of[e], sums[m][j][e]);
    }
  }
}

// sums[m][j] += the product of a chunk's 16 rows with octet j of x, as multiply_chunk() but with x of shared memory.
template <class W, int M, int J>
__device__ __forceinline__ void multiply_some(const uint32_t (&codes)[M][W::Codes::kWords],
                                              const typename W::Scales::Row (&rows)[M][2], const std::byte* at,
                                              int lane, float (&sums)[M][J][4]) {
  using Group = GroupSums<W, M, J>;
  using Of = SomeX<W>;
  constexpr int kSteps = Group::kIsChunk ? 2 : W::kGroupSteps;  // of a group in a unit
  Group group;
#pragma unroll
  for (int u = 0; u < W::kUnits; ++u) {
    uint4 x[J];
#pragma unroll
    for (int j = 0; j < J; ++j) x[j] = *reinterpret_cast<const uint4*>(at + (u * J + j) * Of::kOctet + lane * 16);
#pragma unroll
    for (int first = 0; first < 2; first += kSteps) {
      if (!Group::kIsChunk || u == 0) group.begin();
      if constexpr (Of::kHasSums) {
#pragma unroll
        for (int j = 0; j < J; ++j) {
          const float2 of_x = *reinterpret_cast<const float2*>(at + (u * J + j) * Of::kOctet + 512 +
                                                               (Of::kSums == 2 ? first * 32 : 0) + lane % 4 * 8);
          group.add_sums(j, of_x);
        }
      }
      if constexpr (!Group::kIsChunk && W::kBias != 0) group.begin_with_bias();
#pragma unroll
      for (int s = first; s < first + kSteps; ++s) group.add(codes, x, u, s);
      if (!Group::kIsChunk || u == W::kUnits - 1)
        group.template scale_into<W::Scales::kMins && !Of::kByMins>(rows, (2 * u + first) / W::kGroupSteps, sums);
    }
  }
  if constexpr (Of::kByMins) take_mins<W>(rows, at, lane, sums);
}

// What the warps of a block share.
template <class W>
struct SomeBlock {
  using Shape = SomeShape<W>;
  std::byte* memory;
  CopyBarrier *full, *empty;
  const std::byte* from;  // x of the tile
  int chunks;

  __device__ void bring_x(int chunk, int octets) const {
    if (chunk >= chunks) return;
    const int stage = chunk % kSomeXStages;
    const auto bytes = static_cast<uint32_t>(W::kUnits * octets * SomeX<W>::kOctet);
    barrier_expect(full + stage, bytes);
    copy_bulk(memory + stage * Shape::kXStage, from + int64_t{chunk} * bytes, bytes, full + stage, false);
  }

  // All columns of this warp's rows times kOctets octets of places.
  template <int kOctets, class R>
  __device__ __forceinline__ void multiply(R& ring, int lane, bool feeds,
                                           float (&sums)[kSomeSixteens][kOctets][4]) const {
    int stage = 0;
    uint32_t parity = 0;
    for (int c = 0; c < chunks; ++c) {
      if (feeds && c >= kSomeXBehind && c - kSomeXBehind + kSomeXStages < chunks) {
        const int behind = c - kSomeXBehind;
        barrier_wait(empty + behind % kSomeXStages, static_cast<uint32_t>(behind / kSomeXStages % 2));
        bring_x(behind + kSomeXStages, kOctets);
      }
      const std::byte* chunk = ring.take();
      uint32_t codes[kSomeSixteens][W::Codes::kWords];
      typename W::Scales::Row rows[kSomeSixteens][2];
#pragma unroll
      for (int m = 0; m < kSomeSixteens; ++m) {
        load_words(chunk + m * W::kBytes, lane, codes[m]);
#pragma unroll
        for (int i = 0; i < 2; ++i)
          rows[m][i] = W::Scales::load(chunk + m * W::kBytes + W::kScalesAt, lane / 4 + 8 * i);
      }
      __syncwarp();
      ring.give_back(lane);
      barrier_wait(full + stage, parity);
      multiply_some<W, kSomeSixteens, kOctets>(codes, rows, memory + stage * Shape::kXStage, lane, sums);
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + stage);
      if (++stage == kSomeXStages) stage = 0, parity ^= 1;
    }
  }
  template <int kOctets, class R>
  __device__ __forceinline__ void run(R& ring, int lane, bool feeds, const SomeArgs& args, const ExpertTile& tile,
                                      int sixteen) const {
    float sums[kSomeSixteens][kOctets][4] = {};
    if (feeds) {
      for (int c = 0; c < kSomeXStages; ++c) bring_x(c, kOctets);
    }
    multiply<kOctets>(ring, lane, feeds, sums);
    constexpr float kPower = power_of_two(W::kSumPower), kOddPower = power_of_two(W::kSumPower - W::kOdd);
#pragma unroll
    for (int m = 0; m < kSomeSixteens; ++m) {
      if (sixteen + m >= args.sixteens) return;
      const PlacesEnd end(args.groups, tile, sixteen + m);
#pragma unroll
      for (int j = 0; j < kOctets; ++j) {
        const float(&v)[4] = sums[m][j];
        end.finish(j, make_float4(v[0] * kPower, v[1] * kPower, v[2] * kOddPower, v[3] * kOddPower));
      }
    }
  }
};

template <class W>
__global__ void __launch_bounds__(32 * kSomeWarps, kSomeBlocks) experts_some(const __grid_constant__ SomeArgs args) {
#if INGOT_HAS_SOME
  using Shape = SomeShape<W>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // The list was there before the kernel that makes x began.
  let_next_begin();
  ExpertTile tile;
  if (!find_tile(args.groups, static_cast<int>(blockIdx.y), kSomeTile, tile)) return;
  std::byte* memory = shared_memory<std::byte>();
  CopyBarrier* barriers = reinterpret_cast<CopyBarrier*>(memory + Shape::kBarriers);
  const SomeBlock<W> block{memory, barriers, barriers + kSomeXStages,
                           args.x + int64_t{blockIdx.y} * (int64_t{args.chunks} * Shape::kXStage), args.chunks};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kSomeXStages; ++i) {
      barrier_init(block.full + i, 1);
      barrier_init(block.empty + i, kSomeWarps);
    }
    barrier_inits_done();
  }
  constexpr int kTileSixteens = kExpertTileRows / 16;
  const int sixteen = (static_cast<int>(blockIdx.x) * kSomeWarps + warp) * kSomeSixteens;
  const int packed = min(sixteen, args.sixteens - kSomeSixteens), packed_tile = packed / kTileSixteens;
  SomeRing<Shape::kChunk> ring{
      .memory = memory + Shape::kRing + warp * kSomeStages * Shape::kChunk,
      .barriers = barriers + 2 * kSomeXStages + warp * kSomeStages,
      .from = args.weights + tile.expert * args.groups.stride +
              (int64_t{packed_tile} * args.chunks * kTileSixteens + packed % kTileSixteens) * W::kBytes,
      .apart = int64_t{kTileSixteens} * W::kBytes,
      .left = args.chunks};
  ring.begin(lane);
  wait_for_inputs();
  __syncthreads();
  if (tile.count <= 8) {
    block.template run<1>(ring, lane, threadIdx.x == 0, args, tile, sixteen);
  } else {
    block.template run<kSomeOctets>(ring, lane, threadIdx.x == 0, args, tile, sixteen);
  }
#endif
}

// x of the tiles. A warp makes kTurnUnits units of an octet.
constexpr int kSomeTurnWarps = 8, kSomeTurnUnits = 4;

__device__ inline float sum_of_pairs(uint32_t a, uint32_t b) {
  const auto value = [](uint32_t bits) { return __uint_as_float(bits); };
  return (value(a << 16) + value(a & 0xffff0000u)) + (value(b << 16) + value(b & 0xffff0000u));
}

template <class W>
__global__ void __launch_bounds__(32 * kSomeTurnWarps) turn_some(const __grid_constant__ SomeArgs args) {
  using Of = SomeX<W>;
  wait_for_inputs();
  // Not before that: the next kernel takes the list for made.
  let_next_begin();
  ExpertTile tile;
  if (!find_tile(args.groups, static_cast<int>(blockIdx.y), kSomeTile, tile)) return;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int octets = tile.count <= 8 ? 1 : kSomeOctets, index = static_cast<int>(blockIdx.x) * kSomeTurnWarps + warp;
  const int octet = index % kSomeOctets, first = index / kSomeOctets * kSomeTurnUnits, units = args.chunks * W::kUnits;
  if (octet >= octets || first >= units) return;
  const int row = octet * 8 + lane / 4;
  const int place = args.groups.list.place[tile.first + min(row, tile.count - 1)];
  const std::byte* from = args.from.row(place / args.per_row) + lane % 4 * (W::kBySixteens ? 8 : 16);
  uint4 x[kSomeTurnUnits];
#pragma unroll
  for (int i = 0; i < kSomeTurnUnits; ++i) {
    x[i] = make_uint4(0, 0, 0, 0);
    if (first + i >= args.units) continue;
    const std::byte* at = from + (first + i) * 64;
    if constexpr (W::kBySixteens) {
      const uint2 a = *reinterpret_cast<const uint2*>(at), b = *reinterpret_cast<const uint2*>(at + 32);
      x[i] = make_uint4(a.x, a.y, b.x, b.y);
    } else {
      x[i] = *reinterpret_cast<const uint4*>(at);
    }
  }
  std::byte* to = args.x + int64_t{blockIdx.y} * (int64_t{units} * kSomeOctets * Of::kOctet);
  float of_units[kSomeTurnUnits] = {};
#pragma unroll
  for (int i = 0; i < kSomeTurnUnits; ++i) {
    if (first + i >= units) break;
    std::byte* at = to + (int64_t{first + i} * octets + octet) * Of::kOctet;
    constexpr uint32_t kPower = static_cast<uint32_t>(127 + W::kXPower) * 0x00800080u;
    const auto times = [](uint32_t pair) { return W::kXPower == 0 ? pair : multiply_pair(pair, kPower); };
    *reinterpret_cast<uint4*>(at + lane * 16) = make_uint4(times(x[i].x), times(x[i].y), times(x[i].z), times(x[i].w));
    float sum[2] = {sum_of_pairs(x[i].x, x[i].y), sum_of_pairs(x[i].z, x[i].w)};
    if constexpr (Of::kSums != 2) sum[0] += sum[1];
#pragma unroll
    for (int k = 0; k < (Of::kByMins ? 1 : Of::kSums); ++k) {
      sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], 1);
      sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], 2);
      constexpr float kOne = (W::kBias == 0 ? 1.0f : -W::kBias) * power_of_two(-(W::Codes::kSmall - W::kXPower));
      if (!Of::kByMins && lane % 4 == 0) reinterpret_cast<float*>(at + 512)[k * 8 + lane / 4] = sum[k] * kOne;
    }
    of_units[i] = sum[0];
  }
  if constexpr (Of::kByMins) {
    // Columns 2t and 2t + 1 of the operand meet mins 0 and 1, or 2 and 3: in lanes 0 and 1 of a place the first term
    // and the third, in lanes 2 and 3 the second.
    const bool odd = lane % 2 == 1;
    const float v[2] = {odd ? of_units[2] : of_units[0], odd ? of_units[3] : of_units[1]};
    uint32_t terms[3];
    float left[2] = {v[0] * power_of_two(W::kXPower), v[1] * power_of_two(W::kXPower)};
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      terms[i] = pack_bf16(left[0], left[1]);
      left[0] -= __uint_as_float(terms[i] << 16), left[1] -= __uint_as_float(terms[i] & 0xffff0000u);
    }
    std::byte* at = to + (int64_t{first + lane / 8} * octets + octet) * Of::kOctet + 512 + lane % 8 * 8;
    *reinterpret_cast<uint2*>(at) = lane % 4 < 2 ? make_uint2(terms[0], terms[2]) : make_uint2(terms[1], 0);
  }
}

}  // namespace

template <class W>
void run_some_format(SomeArgs& args, const DeviceCtx& ctx) {
  args.chunks = static_cast<int>(ceil_div(args.units, W::kUnits));
  const auto tiles = static_cast<unsigned>(args.groups.tiles);
  const int64_t turns = ceil_div(int64_t{args.chunks} * W::kUnits, kSomeTurnUnits) * kSomeOctets;
  launch(ctx, turn_some<W>, {dim3(ceil_div(turns, kSomeTurnWarps), tiles), dim3(32 * kSomeTurnWarps)}, args);
  launch(
      ctx, experts_some<W>,
      {dim3(ceil_div(args.sixteens, kSomeWarps * kSomeSixteens), tiles), dim3(32 * kSomeWarps), SomeShape<W>::kShared},
      args);
}

// In each file that makes kernels for some formats.
#define INGOT_SOME_KERNELS(NAME) template void run_some_format<Stream##NAME>(SomeArgs&, const DeviceCtx&);

}  // namespace ingot::cuda
