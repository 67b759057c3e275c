// The kernel of nine and more rows of e4m3 and weights of e4m3.
//
// A block has two groups of four warps that multiply, and a warp that brings rows and weights, 128 columns a stage. The
// sums of a stage's four products are promoted: times the rows' scales they are added to others in float32, because the
// instruction's own have some 14 bits. While one group promotes the other multiplies.
#pragma once

#include "base/check.h"
#include "cuda/wgmma_fp8.cuh"
#include "matmul/cuda/f8/f8_outputs.cuh"

namespace ingot::cuda {
namespace {

constexpr int kF8Threads = 384;  // three groups of four warps: of the third one works
constexpr int kF8Multipliers = 256;

// TM rows of x, TN outputs. Groups share the rows of x, or the outputs where there are 64 rows; what a group has it
// multiplies in waves of 64 rows and WN outputs.
template <int TM, int TN, int WN, bool kBlocks>
struct F8Shape {
  static constexpr int kWaves = TM * TN / (2 * 64 * WN);  // 1 or 2
  static constexpr int kRowBytes = TM * kF8Cols, kWeightBytes = TN * kF8Cols;
  static constexpr int kScales = TM * 4, kWeightScales = kBlocks ? TN * 4 : 0;
  static constexpr int kStages = TN == 256 && TM == 64 ? 5 : TM == 64 ? 8 : TM * TN == 128 * 128 ? 6 : 4;
  static constexpr int kWeightsAt = kStages * kRowBytes, kScalesAt = kWeightsAt + kStages * kWeightBytes;
  static constexpr int kWeightScalesAt = kScalesAt + kStages * kScales;
  // Twice what is known of a tile's outputs.
  static constexpr int kOutputsAt = kWeightScalesAt + kStages * kWeightScales;
  static constexpr int kBarriersAt = kOutputsAt + 2 * TN * 12;
  static constexpr int kShared = kBarriersAt + 2 * kStages * static_cast<int>(sizeof(CopyBarrier));
  // Where the sums wait that are finished eight rows and 16 outputs at a time.
  static constexpr int kOctets = TM / 8, kSixteens = TN / 16;
  static_assert(kOctets * kSixteens * kTurnedRoom * 4 <= kScalesAt && kShared <= 227 << 10);

  // Of wave j of a group.
  __device__ static constexpr int row(int group, int j) {
    return TM == 64 ? 0 : group * (TM / 2) + (TM == 256 ? 64 * j : 0);
  }
  __device__ static constexpr int output(int group, int j) {
    return (TM == 64 ? group * (TN / 2) : 0) + (TM == 256 ? 0 : WN * j);
  }
};

// What is brought, by one warp.
template <class Shape, int TM, int TN, bool kBlocks>
struct F8Feed {
  const F8Args& args;
  std::byte* memory;
  CopyBarrier *full, *empty;
  int lane;

  __device__ void weights(const F8Item& item, int chunk, int stage, int rows) const {
    if (lane == 0)
      barrier_expect(full + stage,
                     static_cast<uint32_t>(rows * (kF8Cols + 4) + Shape::kWeightBytes + Shape::kWeightScales));
    __syncwarp();
    if (lane >= TN / 16) return;
    const std::byte* from = f8_chunk(args, item.output / 16 + lane, chunk);
    copy_bulk(memory + Shape::kWeightsAt + stage * Shape::kWeightBytes + lane * kF8Codes, from, kF8Codes, full + stage,
              args.weights_once);
    if constexpr (kBlocks)
      copy_bulk(memory + Shape::kWeightScalesAt + stage * Shape::kWeightScales + lane * 64, from + kF8Codes, 64,
                full + stage, args.weights_once);
  }
  __device__ void rows(const F8Item& item, int chunk, int stage, int rows) const {
    const int64_t line = int64_t{chunk} * args.x.rows + item.row;
    if (lane == 16)
      copy_bulk(memory + stage * Shape::kRowBytes, args.x.codes + line * kF8Cols, static_cast<uint32_t>(rows * kF8Cols),
                full + stage, false);
    if (lane == 17)
      copy_bulk(memory + Shape::kScalesAt + stage * Shape::kScales, args.x.scales + line,
                static_cast<uint32_t>(rows * 4), full + stage, false);
  }
  // Weights of the first stages are asked for before the kernel before has ended.
  __device__ void run(int items) const {
    int stage = 0, asked = 0;
    uint32_t parity = 0;
    bool waited = false;
    for (int i = static_cast<int>(blockIdx.x); i < items; i += static_cast<int>(gridDim.x)) {
      const F8Item item = f8_item<TM, TN>(args.plan, i);
      const int n = min(TM, args.x.rows - item.row);
      if (!waited) {
        asked = min(Shape::kStages, item.end - item.first);
        for (int s = 0; s < asked; ++s) weights(item, item.first + s, s, n);
        wait_for_inputs();
        waited = true;
      }
      for (int chunk = item.first; chunk < item.end; ++chunk) {
        if (asked > 0) {
          --asked;
        } else {
          barrier_wait(empty + stage, parity ^ 1);
          weights(item, chunk, stage, n);
        }
        rows(item, chunk, stage, n);
        if (++stage == Shape::kStages) stage = 0, parity ^= 1;
      }
    }
  }
};

// A group's sums into shared memory, in eight rows of 16 outputs each as the ends of wide_end.cuh read them.
template <class Shape, int TN, int WN>
__device__ __forceinline__ void turn_sums(const F8Outputs<TN>& outputs, int group,
                                          const float (&sums)[Shape::kWaves][WN / 2], float* rooms) {
  const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int j = 0; j < Shape::kWaves; ++j) {
    const int octet = Shape::row(group, j) / 8 + warp * 2, output = Shape::output(group, j);
#pragma unroll
    for (int i = 0; i < WN / 2; ++i) {
      const int of = i / 4 * 8 + f8_row_at(2 * t + i % 2), at = output + of;
      float* room = rooms + (at / 16 * Shape::kOctets + octet + i / 2 % 2) * kTurnedRoom;
      room[g * kTurnedRow + at % 16] = sums[j][i] * outputs.scale[at];
    }
  }
}

// What the blocks of a tile hand to each other: each adds up some of its outputs, in the order of the splits.
template <class Shape>
struct F8Handed {
  const F8Args& args;
  const F8Item& item;
  int lane;

  __device__ float* at(int split, int sixteen, int octet) const {
    const int block = static_cast<int>(blockIdx.x) - item.split + split;
    return args.handed + (int64_t{block} * Shape::kSixteens * Shape::kOctets + sixteen * Shape::kOctets + octet) * 128 +
           lane * 4;
  }
  __device__ int of_split(int sixteen) const { return sixteen * args.plan.splits / Shape::kSixteens; }
  __device__ float4* in_room(float* room) const {
    return reinterpret_cast<float4*>(room + lane / 4 * kTurnedRow + lane % 4 * 4);
  }
  __device__ void give(int sixteen, int octet, float* room) const {
    hand_over(at(item.split, sixteen, octet), *in_room(room));
  }
  template <int S>
  __device__ void take(int sixteen, int octet, float* room) const {
    float* from[S - 1];
    float4 v[S - 1];
#pragma unroll
    for (int i = 0; i < S - 1; ++i) from[i] = at(i + (i >= item.split ? 1 : 0), sixteen, octet);
    take_over(from, v);
    const float4 mine = *in_room(room);
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int s = 0; s < S; ++s) {
      float4 one = mine;
#pragma unroll
      for (int i = 0; i < S - 1; ++i)
        if (i + (i >= item.split ? 1 : 0) == s) one = v[i];
      sum.x += one.x, sum.y += one.y, sum.z += one.z, sum.w += one.w;
    }
    *in_room(room) = sum;
  }
};

template <class Shape, int TM>
__device__ __forceinline__ void finish_f8(const F8Args& args, const F8Item& item, float* rooms) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int octets = min(Shape::kOctets, (args.stream.rows - item.row + 7) / 8);
  const int sixteens = min(Shape::kSixteens, args.sixteens - item.output / 16), pieces = octets * sixteens;
  const F8Handed<Shape> handed{args, item, lane};
  const auto room_of = [&](int sixteen, int octet) { return rooms + (sixteen * Shape::kOctets + octet) * kTurnedRoom; };
  const int splits = args.plan.splits;
  if (splits > 1) {
    for (int i = warp; i < pieces; i += kF8Multipliers / 32) {
      const int sixteen = i / octets, octet = i % octets;
      if (handed.of_split(sixteen) != item.split) handed.give(sixteen, octet, room_of(sixteen, octet));
    }
  }
#pragma unroll 1
  for (int i = warp; i < pieces; i += kF8Multipliers / 32) {
    const int sixteen = i / octets, octet = i % octets;
    float* room = room_of(sixteen, octet);
    if (splits > 1) {
      if (handed.of_split(sixteen) != item.split) continue;
      if (splits == 2) {
        handed.template take<2>(sixteen, octet, room);
      } else {
        handed.template take<4>(sixteen, octet, room);
      }
      __syncwarp();
    }
    const auto end = [&](auto&& items) {
      items.find(args.stream, item.output / 16 + sixteen, item.row / 8 + octet);
      items.read(args.stream);
      // Which turns what lies in the room already.
      const float* from = room + lane % 4 * 2 * kTurnedRow + lane / 4;
      const float of[4] = {from[0], from[kTurnedRow], from[8], from[kTurnedRow + 8]};
      __syncwarp();
      items.finish(args.stream, of, nullptr, room);
    };
    if (args.stream.map.order == RowOrder::kPlain) {
      end(OctetOutputs());
    } else {
      end(OctetPairs());
    }
  }
}

#if INGOT_HAS_WGMMA

// A group's products of one wave of a stage on their way to its sums.
template <class Shape, int WN, bool kBlocks>
struct F8Wave {
  float of[WN / 2];
  float scale[2];  // of the rows that this lane has sums of
  const float* of_weights;

  // Brings the scales; products are begun by begin().
  __device__ __forceinline__ void find(std::byte* memory, int stage, int group, int j) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) % 128 / 32;
    const float* scales = reinterpret_cast<const float*>(memory + Shape::kScalesAt + stage * Shape::kScales) +
                          Shape::row(group, j) + warp * 16 + lane / 4;
    scale[0] = scales[0], scale[1] = scales[8];
    of_weights = reinterpret_cast<const float*>(memory + Shape::kWeightScalesAt + stage * Shape::kWeightScales) +
                 Shape::output(group, j);
  }
  // The last of the four instructions is a group of its own where kApart.
  template <bool kApart>
  __device__ __forceinline__ void begin(std::byte* memory, int stage, int group, int j) {
    const MatrixPlace a = matrix_by_rows(memory + stage * Shape::kRowBytes + Shape::row(group, j) * kF8Cols),
                      b = matrix_by_rows(memory + Shape::kWeightsAt + stage * Shape::kWeightBytes +
                                         Shape::output(group, j) * kF8Cols);
    products_begin();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      multiply_group_fp8(of, further(a, i * 32), further(b, i * 32), i > 0);
      if (kApart && i == 2) products_commit();
    }
    products_commit();
  }
  // REQUIRES: they are done.
  __device__ __forceinline__ void promote(float (&sums)[WN / 2]) const {
    const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int i = 0; i < WN / 2; ++i) {
      float by = scale[i / 2 % 2];
      if constexpr (kBlocks) by *= of_weights[i / 4 * 8 + f8_row_at(2 * t + i % 2)];
      sums[i] = __fmaf_rn(of[i], by, sums[i]);
    }
  }
};

struct F8Stages {
  CopyBarrier *full, *empty;
  int stage = 0;
  uint32_t parity = 0;

  __device__ void wait() const { barrier_wait(full + stage, parity); }
  __device__ void give_back(int of) const {
    if (threadIdx.x % 32 == 0) barrier_arrive(empty + of);
  }
  template <int kStages>
  __device__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

// The products of `chunks` stages. Where groups have two waves they take turns: the other's comes when all but one of
// this one's instructions are done. At 16,384 rows 1,192 TFLOP/s of an H200 so, 1,107 without.
template <class Shape, int WN, bool kBlocks>
__device__ __forceinline__ void multiply_in_turn(std::byte* memory, F8Stages& at, int chunks, int group,
                                                 float (&sums)[Shape::kWaves][WN / 2]) {
  for (int chunk = 0; chunk < chunks; ++chunk) {
    at.wait();
#pragma unroll
    for (int j = 0; j < Shape::kWaves; ++j) {
      F8Wave<Shape, WN, kBlocks> wave;
      wave.find(memory, at.stage, group, j);
      if constexpr (Shape::kWaves == 2) {
        barrier_some(2 + group, kF8Multipliers);
        wave.template begin<true>(memory, at.stage, group, j);
        products_done<1>();
        barrier_some_arrive(3 - group, kF8Multipliers);
      } else {
        wave.template begin<false>(memory, at.stage, group, j);
      }
      products_done<0>(wave.of);
      if (!kBlocks && j == Shape::kWaves - 1) at.give_back(at.stage);
      wave.promote(sums[j]);
    }
    if constexpr (kBlocks) {
      __syncwarp();
      at.give_back(at.stage);
    }
    at.template advance<Shape::kStages>();
  }
}
// One wave a stage, of few sums: while its products run those of the stage before are promoted.
template <class Shape, int WN, bool kBlocks>
__device__ __forceinline__ void multiply_ahead(std::byte* memory, F8Stages& at, int chunks, int group,
                                               float (&sums)[1][WN / 2]) {
  F8Wave<Shape, WN, kBlocks> waves[2];
  int before = 0;
  const auto begin = [&](int which) {
    at.wait();
    waves[which].find(memory, at.stage, group, 0);
    waves[which].template begin<false>(memory, at.stage, group, 0);
  };
  const auto end = [&](int which) {
    waves[which].promote(sums[0]);
    __syncwarp();
    at.give_back(before);
  };
  begin(0);
  for (int chunk = 1; chunk < chunks; chunk += 2) {
#pragma unroll
    for (int which = 1; which >= 0; --which) {
      if (which == 0 && chunk + 1 == chunks) break;
      before = at.stage;
      at.template advance<Shape::kStages>();
      begin(which);
      products_done<1>(waves[1 - which].of);
      end(1 - which);
    }
  }
  before = at.stage;
  at.template advance<Shape::kStages>();
  if (chunks % 2 == 1) {
    products_done<0>(waves[0].of);
    end(0);
  } else {
    products_done<0>(waves[1].of);
    end(1);
  }
}

#endif

// kRows: outputs go to args.to, in rows; a block may have several tiles. Else each part to its own place, by eight
// rows and 16 outputs, one tile or split a block.
template <int TM, int TN, int WN, bool kBlocks, bool kRows>
__global__ void __launch_bounds__(kF8Threads, 1) linear_f8(const __grid_constant__ F8Args args) {
#if INGOT_HAS_WGMMA
  using Shape = F8Shape<TM, TN, WN, kBlocks>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, group = warp / 4;
  std::byte* memory = shared_memory<std::byte>();
  CopyBarrier *full = reinterpret_cast<CopyBarrier*>(memory + Shape::kBarriersAt), *empty = full + Shape::kStages;
  auto* outputs = reinterpret_cast<F8Outputs<TN>*>(memory + Shape::kOutputsAt);
  let_next_begin();
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kStages; ++i) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, kF8Multipliers / 32);
    }
    barrier_inits_done();
  }
  __syncthreads();
  const int items = static_cast<int>(args.plan.tiles()) * args.plan.splits;
  if (group == 2) {
    give_registers<24>();
    if (warp == 8) F8Feed<Shape, TM, TN, kBlocks>{args, memory, full, empty, lane}.run(items);
    return;
  }
  take_registers<240>();
  if (Shape::kWaves == 2 && group == 1) barrier_some_arrive(2, kF8Multipliers);
  F8Stages stages{full, empty};
  int which = 0;
  for (int i = static_cast<int>(blockIdx.x); i < items; i += static_cast<int>(gridDim.x)) {
    const F8Item item = f8_item<TM, TN>(args.plan, i);
    F8Outputs<TN>& known = outputs[which];
    which ^= 1;
    if (static_cast<int>(threadIdx.x) < TN) known.find(args, item, kBlocks, static_cast<int>(threadIdx.x));
    float sums[Shape::kWaves][WN / 2] = {};
    if constexpr (Shape::kWaves == 1 && WN == 64) {
      multiply_ahead<Shape, WN, kBlocks>(memory, stages, item.end - item.first, group, sums);
    } else {
      multiply_in_turn<Shape, WN, kBlocks>(memory, stages, item.end - item.first, group, sums);
    }
    wait_for_inputs();
    barrier_some(1, kF8Multipliers);
    if constexpr (kRows) {
#pragma unroll
      for (int j = 0; j < Shape::kWaves; ++j) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int64_t row = item.row + Shape::row(group, j) + warp % 4 * 16 + lane / 4 + 8 * h;
          const int output = Shape::output(group, j);
          if (args.stream.glu != ActivationKind::kNone) {
            store_units<TN, WN>(args, known, output, row, h, sums[j]);
          } else if (args.to.dtype == DType::kBF16) {
            store_bf16<TN, WN>(args, known, output, row, h, sums[j]);
          } else {
            store_f32<TN, WN>(args, known, output, row, h, sums[j]);
          }
        }
      }
    } else {
      float* rooms = reinterpret_cast<float*>(memory);
      turn_sums<Shape, TN, WN>(known, group, sums, rooms);
      barrier_some(1, kF8Multipliers);
      finish_f8<Shape, TM>(args, item, rooms);
    }
  }
#endif
}

template <int TM, int TN, int WN, bool kBlocks, bool kRows>
void launch_f8(const F8Args& args, const DeviceCtx& ctx) {
  const int64_t items = args.plan.tiles() * args.plan.splits;
  const int64_t blocks = kRows ? std::min<int64_t>(items, ctx.multiprocessors) : items;
  launch(ctx, linear_f8<TM, TN, WN, kBlocks, kRows>,
         {dim3(static_cast<unsigned>(blocks)), dim3(kF8Threads), F8Shape<TM, TN, WN, kBlocks>::kShared,
          args.plan.splits > 1},
         args);
}

}  // namespace

template <bool kBlocks>
void run_f8_kernel(const F8Args& args, bool rows, const DeviceCtx& ctx) {
  const int shape = args.plan.tile_rows * 1000 + args.plan.tile_cols;
  if (rows) {
    if (shape == 64256) return launch_f8<64, 256, 128, kBlocks, true>(args, ctx);
    if (shape == 128256) return launch_f8<128, 256, 128, kBlocks, true>(args, ctx);
    if (shape == 256128) return launch_f8<256, 128, 128, kBlocks, true>(args, ctx);
  } else {
    if (shape == 64128) return launch_f8<64, 128, 64, kBlocks, false>(args, ctx);
    if (shape == 128128) return launch_f8<128, 128, 128, kBlocks, false>(args, ctx);
  }
  CHECK(false, "tiles of {}", shape);
}

}  // namespace ingot::cuda
