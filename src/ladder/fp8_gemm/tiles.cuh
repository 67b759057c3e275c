// Tiles of kM by 128 results by two warpgroups, 128 columns of K a stage. Compute capability 9.0 alone.
#pragma once

#include "cuda/wgmma_fp8.cuh"
#include "ladder/fp8_gemm/fp8_gemm.cuh"
#include "matmul/cuda/gemm_clusters.cuh"

namespace ingot::cuda {

// How a warpgroup promotes: a stage's products, then their sums; two stages' products at a time, so that one runs while
// the other's sums are added; or the products in turns with the other warpgroup, so that it adds while this one
// multiplies.
enum class Promotion { kWait, kPairs, kTurns };

// A warpgroup has 64 rows, or twice 64 one after another.
template <int kM_, int kDown, int kAcross, int kStages_, Promotion kPromotion_ = Promotion::kWait>
struct Fp8Tile : ClusterPlace<kDown, kAcross> {
  using ClusterPlace<kDown, kAcross>::ClusterPlace;
  static constexpr Promotion kPromotion = kPromotion_;
  static constexpr int kM = kM_, kN = 128, kStages = kStages_, kHalves = kM / 128;
  static constexpr int kK = 64;                                                          // values of 16 bits
  static constexpr int kA = kM * 128, kCopied = kA + kN * 128, kStage = kCopied + 1024;  // bytes; a's scales at the end
  static constexpr int kBarriers = kStages * kStage;
  static constexpr int64_t kBytes = kBarriers + 2 * kStages * static_cast<int64_t>(sizeof(CopyBarrier));
  static constexpr int kWarps = 8;  // that multiply
  static_assert(kPromotion != Promotion::kPairs || kHalves == 1);
};

// The scales of a's rows come with a stage.
template <int kM>
struct ScalesBeside {
  const CodeScales& scales;

  __device__ uint32_t bytes(int row) const { return static_cast<uint32_t>(max(0, min(kM, scales.m - row))) * 4; }
  __device__ void copy(int row, int step, std::byte* to, CopyBarrier* barrier) const {
    if (bytes(row) > 0) copy_bulk(to, scales.a(row, step), bytes(row), barrier);
  }
};

// d times the scales of its two rows and of b, added to sums.
struct Scale {
  float first, second;
};
__device__ inline void add_scaled(float* sums, const float (&d)[64], const Scale& scale) {
#pragma unroll
  for (int i = 0; i < 64; ++i) sums[i] = __fmaf_rn(d[i], i / 2 % 2 == 0 ? scale.first : scale.second, sums[i]);
}

// A warpgroup's turn to multiply is a barrier that the other one's threads arrive at.
template <bool kTaken>
struct Turns {
  static __device__ void wait(int group) {
    if constexpr (kTaken) barrier_some(1 + group, 256);
  }
  static __device__ void give(int group) {
    if constexpr (kTaken) barrier_some_arrive(2 - group, 256);
  }
  // The first turn is group 0's; and the last, which group 1 gives behind its last product.
  static __device__ void begin(int group) {
    if (group == 1) give(group);
  }
  static __device__ void end(int group) {
    if (group == 0) wait(group);
  }
};

// One warpgroup's stages of a part of K, their sums added to `sums`. `wait` gives a stage's memory when it is there,
// `done` gives it back.
template <class T, class Wait, class Done>
__device__ void promote_stages(float (&sums)[64 * T::kHalves], const CodeScales& scales, const TileSteps& part, int own,
                               int col, int group, const Wait& wait, const Done& done) {
  constexpr bool kTurns = T::kPromotion == Promotion::kTurns;
  const auto start = [&](float(&d)[64], const std::byte* stage, int half) {
    const MatrixPlace a = matrix_by_rows(stage + (group * T::kHalves + half) * 64 * 128),
                      b = matrix_by_rows(stage + T::kA);
    Turns<kTurns>::wait(group);
    products_begin();
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      multiply_group_fp8(d, further(a, 32 * kk), further(b, 32 * kk), kk > 0);
      if (kTurns && kk == 2) products_commit();
    }
    products_commit();
  };
  float next = scales.b(col, part.from);
  const auto take_b = [&](int s) {  // that of the next step comes while this one's products run
    const float now = next;
    if (s + 1 < part.to) next = scales.b(col, s + 1);
    return now;
  };
  const auto scale_of = [&](const std::byte* stage, int half, float b) {
    const float* of_a = reinterpret_cast<const float*>(stage + T::kCopied) + own + 64 * half;
    return Scale{of_a[0] * b, of_a[8] * b};
  };
  int s = part.from;
  if constexpr (T::kPromotion == Promotion::kPairs) {
    for (; s + 1 < part.to; s += 2) {
      float first[64], second[64];
      const std::byte* stage = wait();
      start(first, stage, 0);
      const Scale of_first = scale_of(stage, 0, take_b(s));
      stage = wait();
      start(second, stage, 0);
      const Scale of_second = scale_of(stage, 0, take_b(s + 1));
      products_done<1>(first);
      done();
      add_scaled(sums, first, of_first);
      products_done<0>(second);
      done();
      add_scaled(sums, second, of_second);
    }
  }
  for (; s < part.to; ++s) {
    const std::byte* stage = wait();
    float b = 0;
#pragma unroll
    for (int half = 0; half < T::kHalves; ++half) {
      float d[64];
      start(d, stage, half);
      if (half == 0) b = take_b(s);
      const Scale scale = scale_of(stage, half, b);
      if constexpr (kTurns) {  // given before the last product is done: the other's begins right behind it
        products_done<1>();
        Turns<kTurns>::give(group);
      }
      products_done<0>(d);
      if (half + 1 == T::kHalves) done();
      add_scaled(sums + 64 * half, d, scale);
    }
  }
}

// What one warpgroup does with its ring of stages.
template <class T, int kBand>
__device__ void multiply_codes(const View& out, const CodeScales& scales, const ClusterWalk<T, kBand>& walk,
                               const T& tile, const HandedSums& handed, const std::byte* shared, CopyBarrier* full,
                               CopyBarrier* empty) {
  const int thread = static_cast<int>(threadIdx.x) - 128, group = thread / 128, lane = thread % 32;
  const int rows = 64 * T::kHalves * group, own = rows + thread % 128 / 32 * 16 + lane / 4;
  const bool arrives = lane < T::kBlocks && tile.shares_with(lane);
  using InTurns = Turns<T::kPromotion == Promotion::kTurns>;
  InTurns::begin(group);
  int waited = 0, given = 0;
  uint32_t parity = 0;
  const auto wait = [&] {
    barrier_wait(full + waited, parity);
    const std::byte* stage = shared + waited * T::kStage;
    if (++waited == T::kStages) {
      waited = 0;
      parity ^= 1;
    }
    return stage;
  };
  const auto done = [&] {
    __syncwarp();  // all lanes have read their scales
    if constexpr (T::kBlocks > 1) {
      if (arrives) barrier_arrive_at(empty + given, lane);
    } else {
      if (arrives) barrier_arrive(empty + given);
    }
    if (++given == T::kStages) given = 0;
  };
  TileSteps part;
  for (int i = 0; walk.part(i, part); ++i) {
    int row, col;
    walk.place(tile, part.tile, row, col);
    float sums[64 * T::kHalves];
#pragma unroll
    for (float& x : sums) x = 0;
    promote_stages<T>(sums, scales, part, own, col, group, wait, done);
    if constexpr (T::kHalves == 2) {
      if (part.to < walk.steps) {
        handed.give(sums, thread);
        continue;
      }
      if (part.from > 0)
        for (int c = walk.cluster() - 1; c >= 0 && walk.has_part(c, part.tile); --c)
          handed.add(sums, c * T::kBlocks + cluster_rank(), thread);
    }
#pragma unroll
    for (int half = 0; half < T::kHalves; ++half)
      store_rows<64>(sums + 64 * half, out, walk.m, row + rows + 64 * half, col);
  }
  InTurns::end(group);
}

// The first warpgroup copies, by one thread; the other two multiply. Clusters take tiles in turn.
template <class T, int kBand>
__global__ void __launch_bounds__(384, 1)
    gemm_codes(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const CodeScales scales,
               View out, const ClusterWalk<T, kBand> walk, const HandedSums handed) {
#if INGOT_HAS_WGMMA
  let_next_begin();
  std::byte* shared = shared_memory<std::byte>();
  auto* full = reinterpret_cast<CopyBarrier*>(shared + T::kBarriers);
  CopyBarrier* empty = full + T::kStages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < T::kStages; ++i) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, T::kWarps * (T::kDown + T::kAcross - 1));
    }
    barrier_inits_done();
  }
  cluster_sync();
  wait_for_inputs();
  const T tile(cluster_rank());
  if (threadIdx.x < 128) {
    give_registers<40>();
    if (threadIdx.x == 0) copy_stages(a, b, walk, tile, shared, full, empty, ScalesBeside<T::kM>{scales});
    __syncwarp();
  } else {
    take_registers<232>();
    multiply_codes(out, scales, walk, tile, handed, shared, full, empty);
  }
  cluster_sync();  // others write into this block's memory until then
#endif
}

// False: not on this device, or not such a product.
template <class T, int kBand>
bool run_codes(const Fp8Gemm& op, const Ctx& ctx, Sharing sharing) {
  const CodeMatrix a(op.a, ctx), b(op.b, ctx);
  if (a.rows == 0 || b.rows == 0) return true;
  // a's scales are copied 16 bytes at a time.
  if (ctx.arch != 90 || a.rows % 4 != 0 || b.rows % 8 != 0 || op.out.stride % 8 != 0) return false;
  const int64_t pairs = a.cols / 2;  // of codes: what tensor copies count in
  ClusterWalk<T, kBand> walk(a.rows, b.rows, pairs);
  const int clusters = clusters_of(walk, sharing, ctx.multiprocessors, ctx.scratch_bytes);
  launch_clusters(ctx, T::kBlocks, gemm_codes<T, kBand>, {dim3(clusters * T::kBlocks), dim3(384), T::kBytes},
                  make_tensor_map(a.data, a.rows, pairs, a.cols, T::kM / T::kAcross),
                  make_tensor_map(b.data, b.rows, pairs, b.cols, T::kN / T::kDown), CodeScales(op, ctx), View(op.out),
                  walk, HandedSums{reinterpret_cast<float*>(ctx.scratch), ctx.tickets});
  return true;
}

}  // namespace ingot::cuda
