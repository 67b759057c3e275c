// Attention of many rows of a seq by warpgroups, compute capability 9.0 alone, FlashAttention-3's way: as many blocks
// as multiprocessors go through items of 128 packed rows. One warpgroup copies queries, keys and values into a ring
// (attention_cuda_group_load.cuh); two have 64 packed rows each and multiply, each with the product of the last step's
// values in flight while it weighs the scores of this one. Steps go from the last keys to the first.
#pragma once

#include <algorithm>

#include "ops/attention/cuda/attention_cuda_group_load.cuh"

namespace ingot::cuda {

// A thread's share of its warp's 16 packed rows: rows g and g + 8, columns as wgmma.cuh says.
template <class S>
struct GroupRows {
  float out[S::kDim / 2];  // sum of weight · value
  float top[2], sum[2];    // largest score so far in powers of two; sum of weights, this lane's keys alone
  int last[2];             // position that the row sees
  SeenKeys seen;

  __device__ GroupRows(const AttentionArgs& a, const RowsItem& item, int of) : seen(a, item, of, 16) {
#pragma unroll
    for (float& x : out) x = 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      top[h] = -INFINITY;
      sum[h] = 0;
      int row, head;
      item.locate(a, of + 8 * h + static_cast<int>(threadIdx.x) % 32 / 4, row, head);
      last[h] = min(item.past + row, item.keys_end - 1);
    }
  }
};

// s = query · key, o += weight · value, of a step of kKeys. `q`: the warpgroup's 64 rows. (In registers, a product of
// them would keep its warp until the one before it is done: 260 us in place of 254 for a prompt of 4096.)
template <class S, int kKeys = S::kKeys>
__device__ inline void start_scores(float (&s)[kKeys / 2], MatrixPlace q, MatrixPlace k) {
#pragma unroll
  for (int kk = 0; kk < S::kDim / 16; ++kk)
    multiply_group<S::kBf16, false>(s, further(q, kk / 4 * S::kQueryPanel + kk % 4 * 32),
                                    further(k, kk / 4 * (kKeys * 128) + kk % 4 * 32), kk > 0);
  products_commit();
}
template <class S, int kKeys = S::kKeys>
__device__ inline void start_values(float (&o)[S::kDim / 2], const uint32_t (&p)[kKeys / 16][4], MatrixPlace v) {
#pragma unroll
  for (int j = 0; j < kKeys / 16; ++j) multiply_group<S::kBf16, true>(o, p[j], further(v, 2048 * j));
  products_commit();
}

// Scores of keys from position `first` on that the thread's rows do not see are taken out, after the soft cap.
template <int kKeys, class S>
__device__ inline void mask_group(const AttentionArgs& a, const GroupRows<S>& rows, float (&s)[kKeys / 2], int first) {
  if (a.softcap > 0) {
    const float in = 2 * kLog2E * a.scale / a.softcap, out = a.softcap * kLog2E;
#pragma unroll
    for (float& x : s) x = out * (1.0f - __fdividef(2.0f, fast_exp2(x * in) + 1.0f));
  }
  const int from = first + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int last = rows.last[h] - from, lowest = a.window > 0 ? last - a.window + 1 : -(1 << 30);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& x = s[4 * n + 2 * h + c];
        x = 8 * n + c > last || 8 * n + c < lowest ? -INFINITY : x;
      }
    }
  }
}

// Scores of keys from position `first` on become weights; factor: what the sums of values so far are to be multiplied
// by. True where one of the warp's is not 1. See weigh_scores().
template <class S, int kKeys = S::kKeys>
__device__ inline bool weigh_group(const AttentionArgs& a, GroupRows<S>& rows, float (&s)[kKeys / 2], int first,
                                   float (&factor)[2]) {
  float scale = a.scale_log2;
  if (first + kKeys - 1 > rows.seen.all || first < rows.seen.lowest || a.softcap > 0) {
    mask_group<kKeys>(a, rows, s, first);
    if (a.softcap > 0) scale = 1;
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float most[2] = {s[2 * h], s[2 * h + 1]};
#pragma unroll
    for (int n = 1; n < kKeys / 8; ++n) {
      most[0] = fmaxf(most[0], s[4 * n + 2 * h]);
      most[1] = fmaxf(most[1], s[4 * n + 2 * h + 1]);
    }
    float top = fmaxf(most[0], most[1]);
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    top = top * scale > rows.top[h] + kSlack ? top * scale : rows.top[h];
    const float base = top == -INFINITY ? 0.0f : top;
    factor[h] = fast_exp2(rows.top[h] - base);
    rows.top[h] = top;
    float sum[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& x = s[4 * n + 2 * h + c];
        sum[c] += x = fast_exp2(fmaf(x, scale, -base));
      }
    }
    rows.sum[h] = fmaf(rows.sum[h], factor[h], sum[0] + sum[1]);
  }
  return __any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f) != 0;
}

template <class S, int kKeys = S::kKeys>
__device__ inline void pack_weights(uint32_t (&p)[kKeys / 16][4], const float (&s)[kKeys / 2]) {
#pragma unroll
  for (int j = 0; j < kKeys / 16; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) p[j][i] = pack<S::kBf16>(s[8 * j + 2 * i], s[8 * j + 2 * i + 1]);
  }
}

// The ring as the warps that multiply see it: slots [i, i + kEach) have a matrix, of keys and of values in turn.
template <class S, int kEach>
struct GroupRing {
  GroupControl<S>& control;
  std::byte* slots;

  __device__ const std::byte* wait(int i) const {
#pragma unroll
    for (int j = 0; j < kEach; ++j) barrier_wait(&control.full[i % S::kSlots + j], i / S::kSlots & 1);
    if constexpr (!S::kBoxed) shared_writes_done();
    return slots + i % S::kSlots * S::kSlotBytes;
  }
  __device__ void give_back(int i, bool now = true) const {
    __syncwarp();
    if (threadIdx.x % 32 < kEach && now) barrier_arrive(&control.empty[i % S::kSlots + threadIdx.x % 32]);
  }
};

// One item's steps of kKeys, in slots from number `taken` on, from the last keys to the first.
template <class S, int kKeys>
__device__ inline void attend_steps(const AttentionArgs& a, GroupRows<S>& rows, GroupControl<S>& control,
                                    std::byte* slots, int taken, MatrixPlace q, const GroupSteps<S>& steps) {
  constexpr int kEach = kKeys / S::kKeys, kPanel = kKeys * 128;
  const GroupRing<S, kEach> ring{control, slots};
  float s[kKeys / 2], factor[2];
  uint32_t p[kKeys / 16][4];
  int key = steps.key(0);
  const std::byte* k = ring.wait(taken);
  products_begin();
  start_scores<S, kKeys>(s, q, matrix_by_rows(k));
  products_done<0>(s);
  ring.give_back(taken);
  weigh_group<S, kKeys>(a, rows, s, key, factor);
  pack_weights<S, kKeys>(p, s);
  int at = taken;  // of the keys of the step that is weighed
#pragma unroll 1
  while (key > steps.begin) {
    at += 2 * kEach;
    key -= kKeys;
    k = ring.wait(at);
    const std::byte* v = ring.wait(at - kEach);
    products_begin();
    start_scores<S, kKeys>(s, q, matrix_by_rows(k));
    start_values<S, kKeys>(rows.out, p, matrix_by_columns(v, kPanel));
    products_done<1>(s);
    const bool grown = weigh_group<S, kKeys>(a, rows, s, key, factor);
    // No sum is negative. ptxas moves a wait up as far as nothing with an effect keeps it: without this one the weights
    // would be computed after the product that they could be computed under.
    ring.give_back(at, !(rows.sum[0] + rows.sum[1] < 0));
    products_done<0>(rows.out);
    ring.give_back(at - kEach);
    if (grown) {
#pragma unroll
      for (int i = 0; i < S::kDim / 2; ++i) rows.out[i] *= factor[i / 2 % 2];
    }
    pack_weights<S, kKeys>(p, s);
  }
  at += kEach;
  const std::byte* v = ring.wait(at);
  products_begin();
  start_values<S, kKeys>(rows.out, p, matrix_by_columns(v, kPanel));
  products_done<0>(rows.out);
  ring.give_back(at);
}

// The warp's results to their places; 16-bit ones through `room`, kResultBytes that it alone uses, so that whole rows
// are written at a time.
template <class S>
__device__ inline void store_group(const AttentionArgs& a, const RowsItem& item, const GroupRows<S>& rows, int of,
                                   std::byte* room) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const bool wide = a.out.dtype == DType::kF32, same = a.out.dtype == S::kType;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = rows.sum[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const int i = of + 8 * h + g;
    if (item.first + i >= item.end) continue;
    int row, head;
    item.locate(a, i, row, head);
    head += item.kv_head * a.group;
    const float factor = last_factor(a, head, rows.top[h], sum);
    if (wide) {
      float* to = reinterpret_cast<float*>(a.out.row(item.q_begin + row)) + head * S::kDim + 2 * t;
#pragma unroll
      for (int n = 0; n < S::kDim / 8; ++n)
        *reinterpret_cast<float2*>(to + 8 * n) =
            make_float2(rows.out[4 * n + 2 * h] * factor, rows.out[4 * n + 2 * h + 1] * factor);
      continue;
    }
#pragma unroll
    for (int n = 0; n < S::kDim / 8; ++n) {
      const float x = rows.out[4 * n + 2 * h] * factor, y = rows.out[4 * n + 2 * h + 1] * factor;
      auto* to = reinterpret_cast<uint32_t*>(room + panel_piece(8 * h + g, n, S::kResultPanel) + 4 * t);
      *to = same ? pack<S::kBf16>(x, y) : pack<!S::kBf16>(x, y);
    }
  }
  if (wide) return;
  __syncwarp();
  constexpr int kAtOnce = 32 / S::kPieces, kTimes = 16 / kAtOnce;  // 2 or 4 rows
  const int first = lane / S::kPieces, piece = lane % S::kPieces, count = item.end - item.first - of;
  std::byte* to = a.out.row(item.q_begin + item.row) + (item.kv_head * a.group * S::kDim + piece * 8) * 2;
  const int stride = static_cast<int>(a.out.stride) * 2;  // an item's rows are fewer than 2^31 bytes
  uint4 pieces[kTimes];
#pragma unroll
  for (int j = 0; j < kTimes; ++j)
    pieces[j] = *reinterpret_cast<const uint4*>(room + panel_piece(first + j * kAtOnce, piece, S::kResultPanel));
  PackedWalk at(a, item, of + first, kAtOnce);
#pragma unroll
  for (int j = 0; j < kTimes; ++j, at.next(a)) {
    if (first + j * kAtOnce < count)
      *reinterpret_cast<uint4*>(to + at.row * stride + at.head * (S::kDim * 2)) = pieces[j];
  }
  __syncwarp();
}

// The other two warpgroups, 0 and 1.
template <class S>
__device__ inline void attend_items(const AttentionArgs& a, std::byte* shared, GroupControl<S>& control, int group) {
  const int of = 64 * group + 16 * (static_cast<int>(threadIdx.x) % 128 / 32);  // the warp's first row in an item
  wait_for_inputs();
  int taken = 0;
#pragma unroll 1
  for (int turn = 0;; ++turn) {
    const int slot = turn % 2;
    barrier_wait(&control.queries_full[slot], turn / 2 & 1);
    shared_writes_done();
    const RowsItem& item = control.items[turn % S::kItems];
    if (item.seq < 0) return;
    const MatrixPlace queries = matrix_by_rows(shared + slot * S::kQueryBytes + group * 64 * 128);
    const GroupSteps<S> steps(item);
    GroupRows<S> rows(a, item, of);
    if (S::kBoxed && steps.keys == S::kLongKeys) {
      attend_steps<S, S::kLongKeys>(a, rows, control, shared + S::kRing, taken, queries, steps);
    } else {
      attend_steps<S, S::kKeys>(a, rows, control, shared + S::kRing, taken, queries, steps);
    }
    taken += 2 * steps.count * steps.slots();
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(&control.queries_empty[slot]);
    store_group<S>(a, item, rows, of, shared + S::kResults + of / 16 * S::kResultBytes);
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    attend_group(AttentionArgs a, const __grid_constant__ GroupMaps maps) {
#if INGOT_HAS_WGMMA
  let_next_begin();
  std::byte* shared = shared_memory<std::byte>();
  auto& control = *reinterpret_cast<GroupControl<S>*>(shared + S::kControl);
  if (threadIdx.x == 0) control.init();
  __syncthreads();
  if (threadIdx.x < 128) {
    give_registers<S::kFewRegisters>();
    copy_items<S>(a, maps, shared, control);
  } else {
    take_registers<S::kManyRegisters>();
    attend_items<S>(a, shared, control, static_cast<int>(threadIdx.x) / 128 - 1);
  }
#else
  __trap();
#endif
}

template <class S>
void launch_group(const Ctx& ctx, const AttentionArgs& a, int64_t tiles) {
  const int64_t blocks = std::min(int64_t{ctx.multiprocessors}, tiles * a.kv_heads);
  GroupMaps maps;
  if constexpr (S::kBoxed) maps = GroupMaps(a.kv);
  launch(ctx, attend_group<S>,
         {dim3(static_cast<unsigned>(blocks)), dim3(S::kThreads),
          S::kControl + static_cast<int64_t>(sizeof(GroupControl<S>))},
         a, maps);
}

template <DType kCache, int kDim>
void launch_group(const Ctx& ctx, const AttentionArgs& a, int64_t tiles) {
  // Several prompts of up to 512 rows: 8 of 512 took 59.2 us by copies of 16 bytes and 63.0 by boxes. One chunk of 512
  // behind 4096: 77.1 and 69.1.
  const bool boxed = a.seqs == 1 || ctx.q_rows > 512;
  if constexpr (!kv_is_coded(kCache)) {
    if (boxed && a.q.dtype == kCache && GroupMaps::fit(a.kv))
      return launch_group<GroupShape<kCache, kDim, true>>(ctx, a, tiles);
  }
  launch_group<GroupShape<kCache, kDim>>(ctx, a, tiles);
}

template <DType kCache>
void launch_group(const Ctx& ctx, const AttentionArgs& a, int64_t tiles) {
  if (a.kv.k_dim == 64) return launch_group<kCache, 64>(ctx, a, tiles);
  CHECK(a.kv.k_dim == 128, "heads of {}", a.kv.k_dim);
  launch_group<kCache, 128>(ctx, a, tiles);
}

}  // namespace ingot::cuda
