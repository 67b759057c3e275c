// What a block of the rows kernel takes, how its queries come and its results go, and a warp's softmax over a step.
#pragma once

#include "ops/attention/cuda/attention_cuda_tile.cuh"

namespace ingot::cuda {

// kRowsTile packed rows of one seq and KV head. A row of a seq is at position past + its index.
struct RowsItem {
  int seq, kv_head, q_begin, past;
  int first, end;            // packed rows [first, end) of the seq
  int keys_begin, keys_end;  // positions that any of them sees; begin is a multiple of the step
  int row, head;             // of packed row `first`
  float inverse;             // 1 / group

  // Row of the seq, and head of the KV head's, of packed row first + i. Exact: i + head is far below 2^20.
  __device__ void locate(const AttentionArgs& a, int i, int& row_of, int& head_of) const {
    const int x = head + i, q = static_cast<int>((static_cast<float>(x) + 0.5f) * inverse);
    row_of = row + q;
    head_of = x - q * a.group;
  }

  // The rest, from seq, first, end and past.
  __device__ void place(const AttentionArgs& a, int step) {
    row = first / a.group;
    head = first - row * a.group;
    inverse = 1.0f / static_cast<float>(a.group);
    int last_row, last_head;
    locate(a, end - 1 - first, last_row, last_head);
    keys_end = past + last_row + 1;
    keys_begin = a.window > 0 ? max(0, past + row - a.window + 1) / step * step : 0;
  }
};

// Tiles of kRowsTile packed rows, counted from the last seq's last to the first, so that those with the most keys begin
// first. A warp's: its lanes keep 32 seqs at a time. Reads only what no kernel writes.
class TileFinder {
 public:
  __device__ explicit TileFinder(const AttentionArgs& a) : after_(a.seqs) { load(a); }
  // All of the item but its KV head; false where there are not so many tiles. REQUIRES: no index below the last one's.
  __device__ bool find(const AttentionArgs& a, int index, int step, RowsItem& item) {
    int all = __shfl_sync(0xffffffffu, through_, 31);
    while (index - before_ >= all) {
      before_ += all;
      after_ -= 32;
      if (after_ <= 0) return false;
      load(a);
      all = __shfl_sync(0xffffffffu, through_, 31);
    }
    const int source = __ffs(static_cast<int>(__ballot_sync(0xffffffffu, index - before_ < through_))) - 1;
    item.seq = after_ - 1 - source;
    item.first = (__shfl_sync(0xffffffffu, through_, source) - 1 - (index - before_)) * kRowsTile;
    item.q_begin = __shfl_sync(0xffffffffu, begin_, source);
    item.end = min(__shfl_sync(0xffffffffu, packed_, source), item.first + kRowsTile);
    item.past = __shfl_sync(0xffffffffu, past_, source);
    item.place(a, step);
    return true;
  }

 private:
  __device__ void load(const AttentionArgs& a) {
    const int lane = static_cast<int>(threadIdx.x) % 32, s = after_ - 1 - lane, at = max(s, 0);
    begin_ = a.q_start[at];
    const int n = a.q_start[at + 1] - begin_;
    past_ = a.kv_len[at] - n;
    packed_ = s >= 0 ? n * a.group : 0;
    if (packed_ < a.least_packed || packed_ > a.most_packed) packed_ = 0;
    through_ = (packed_ + kRowsTile - 1) / kRowsTile;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const int other = __shfl_up_sync(0xffffffffu, through_, d);
      if (lane >= d) through_ += other;
    }
  }

  int after_, before_ = 0;     // the lanes' seqs are those below it, downwards; tiles of those from it on
  int begin_, packed_, past_;  // of the lane's seq
  int through_;                // tiles of it and of the lanes before
};

// Where a step's keys lie: lane i has the page of the step's i-th 16 keys, and the slot of the first of them there.
struct StepPages {
  int page = -1, slot = 0;

  template <class S, int kKeys = S::kKeys>
  __device__ static StepPages of(const AttentionArgs& a, const RowsItem& item, int key) {
    const int lane = static_cast<int>(threadIdx.x) % 32, p = key + 16 * lane;
    StepPages result;
    if (lane >= kKeys / 16 || p >= item.keys_end) return result;
    const int index = p / a.kv.page_rows;
    result.page = a.page_table[static_cast<int64_t>(item.seq) * a.pages_per_seq + index];
    result.slot = p - index * a.kv.page_rows;
    return result;
  }
};

// The item's queries on their way into shared memory in the cache's type, zeros for rows of padding. Done after the
// copies of the block have arrived, and a barrier.
template <class S>
__device__ void start_queries(const AttentionArgs& a, const RowsItem& item, std::byte* to) {
  constexpr int kPieces = S::Rows::kPieces, kShare = kRowsTile * kPieces / S::kThreads;
  constexpr DType kType = S::kBf16 ? DType::kBF16 : DType::kF16;
  // The j-th piece of this thread: its packed row of the item, and where it lies; false for padding.
  const auto piece_of = [&](int j, std::byte*& place, const std::byte*& from) {
    const int i = static_cast<int>(threadIdx.x) + j * S::kThreads, packed = i / kPieces, piece = i % kPieces;
    int row, head;
    item.locate(a, packed, row, head);
    place = to + S::Rows::at(packed, piece);
    const int64_t column = static_cast<int64_t>(item.kv_head * a.group + head) * S::kDim + piece * 8;
    const bool valid = item.first + packed < item.end;
    from = valid ? a.q.row(item.q_begin + row) + column * (a.q.dtype == DType::kF32 ? 4 : 2) : a.q.data;
    return valid;
  };
  std::byte* place;
  const std::byte* from;
  if (a.q.dtype == kType) {
#pragma unroll 8
    for (int j = 0; j < kShare; ++j) {
      const bool valid = piece_of(j, place, from);
      copy_async(place, from, valid);
    }
    return;
  }
#pragma unroll 1
  for (int j = 0; j < kShare; ++j) {
    const bool valid = piece_of(j, place, from);
    *reinterpret_cast<uint4*>(place) = valid ? narrow_eight<S::kBf16>(from, a.q.dtype) : make_uint4(0, 0, 0, 0);
  }
}

// Which positions the warp's rows see: all of them those from `lowest` to `all`, some of them those up to `any`. `of`
// is the warp's first row in the item; a warp of padding sees none.
struct SeenKeys {
  int lowest, all, any;

  __device__ SeenKeys(const AttentionArgs& a, const RowsItem& item, int of, int count) {
    const bool padding = item.first + of >= item.end;
    int first_row, last_row, head;
    item.locate(a, of, first_row, head);
    item.locate(a, max(min(of + count, item.end - item.first) - 1, 0), last_row, head);
    all = padding ? -1 : item.past + first_row;
    any = padding ? -1 : item.past + last_row;
    lowest = a.window > 0 ? item.past + last_row - a.window + 1 : 0;
  }
};

// Scores through the soft cap, in powers of two: tanh(x) = 1 - 2 / (e^2x + 1), whose error is 2^-23 of the cap.
template <int kTiles, int kKeys>
__device__ inline void cap_scores(const AttentionArgs& a, float (&s)[kTiles][kKeys / 8][4]) {
  const float in = 2 * kLog2E * a.scale / a.softcap, out = a.softcap * kLog2E;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[m][n][i] = out * (1.0f - __fdividef(2.0f, fast_exp2(s[m][n][i] * in) + 1.0f));
    }
  }
}

// Keys that a row does not see are taken out of its scores. `of` is the warp's first row in the item.
template <int kTiles, int kKeys>
__device__ inline void mask_scores(const AttentionArgs& a, const RowsItem& item, float (&s)[kTiles][kKeys / 8][4],
                                   int of, int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32, from = first + lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int row, head;
      item.locate(a, of + 16 * m + 8 * h + lane / 4, row, head);
      const int last = min(item.past + row, item.keys_end - 1) - from;
      const int lowest = a.window > 0 ? last - a.window + 1 : -(1 << 30);
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& x = s[m][n][2 * h + c];
          x = 8 * n + c > last || 8 * n + c < lowest ? -INFINITY : x;
        }
      }
    }
  }
}

// Weights are relative to a score that no later one exceeds by more than a factor 2^8: below 256 they round no worse,
// and the sums of values, which every larger score would have to change, are left alone. Without it the largest score
// of some row of a warp grows with nearly every 32 keys of a prompt of 512, 128 products each time.
inline constexpr float kSlack = 8;

// Scores become weights, `scale` brings them to powers of two.
template <int kDim, int kTiles, int kKeys>
__device__ inline void weigh_scores(WarpRows<kDim, kTiles>& rows, float (&s)[kTiles][kKeys / 8][4], float scale) {
  float factor[kTiles][2];
  bool grown = false;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most[2] = {s[m][0][2 * h], s[m][0][2 * h + 1]};
#pragma unroll
      for (int n = 1; n < kKeys / 8; ++n) {
        most[0] = fmaxf(most[0], s[m][n][2 * h]);
        most[1] = fmaxf(most[1], s[m][n][2 * h + 1]);
      }
      float top = fmaxf(most[0], most[1]);
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      top = top * scale > rows.top[m][h] + kSlack ? top * scale : rows.top[m][h];
      const float base = top == -INFINITY ? 0.0f : top;
      factor[m][h] = fast_exp2(rows.top[m][h] - base);
      grown |= factor[m][h] != 1.0f;
      rows.top[m][h] = top;
      float sum[2] = {0, 0};
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) sum[c] += s[m][n][2 * h + c] = fast_exp2(fmaf(s[m][n][2 * h + c], scale, -base));
      }
      rows.sum[m][h] = fmaf(rows.sum[m][h], factor[m][h], sum[0] + sum[1]);
    }
  }
  if (!__any_sync(0xffffffffu, grown)) return;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) rows.out[m][n][i] *= factor[m][i / 2];
    }
  }
}

// The warp's results to their places; 16-bit ones through `room`, shared memory of as many rows that this warp alone
// uses, so that whole rows are written at a time.
template <class S>
__device__ void store_rows(const AttentionArgs& a, const RowsItem& item, WarpRows<S::kDim, S::kTiles>& rows, int of,
                           std::byte* room) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const bool wide = a.out.dtype == DType::kF32, bf16 = a.out.dtype == DType::kBF16;
  __syncwarp();  // all lanes have read their queries
#pragma unroll
  for (int m = 0; m < S::kTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = rows.sum[m][h];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const int of_warp = 16 * m + 8 * h + g, i = of + of_warp;
      if (item.first + i >= item.end) continue;
      int row, head;
      item.locate(a, i, row, head);
      head += item.kv_head * a.group;
      const float factor = last_factor(a, head, rows.top[m][h], sum);
      if (wide) {
        float* to = reinterpret_cast<float*>(a.out.row(item.q_begin + row)) + head * S::kDim + 2 * t;
#pragma unroll
        for (int n = 0; n < S::kDim / 8; ++n)
          *reinterpret_cast<float2*>(to + 8 * n) =
              make_float2(rows.out[m][n][2 * h] * factor, rows.out[m][n][2 * h + 1] * factor);
        continue;
      }
#pragma unroll
      for (int n = 0; n < S::kDim / 8; ++n) {
        const float x = rows.out[m][n][2 * h] * factor, y = rows.out[m][n][2 * h + 1] * factor;
        const uint32_t b = pack_bf16(x, y), f = pack_f16(x, y);
        *reinterpret_cast<uint32_t*>(room + S::Rows::at(of_warp, n) + 4 * t) = bf16 ? b : f;
      }
    }
  }
  if (wide) return;
  __syncwarp();
  constexpr int kPieces = S::Rows::kPieces;
#pragma unroll 4
  for (int j = 0; j < 16 * S::kTiles * kPieces / 32; ++j) {
    const int of_warp = (lane + 32 * j) / kPieces, piece = (lane + 32 * j) % kPieces, i = of + of_warp;
    if (item.first + i >= item.end) continue;
    int row, head;
    item.locate(a, i, row, head);
    const int64_t column = static_cast<int64_t>(item.kv_head * a.group + head) * S::kDim + piece * 8;
    *reinterpret_cast<uint4*>(a.out.row(item.q_begin + row) + column * 2) =
        *reinterpret_cast<const uint4*>(room + S::Rows::at(of_warp, piece));
  }
}

}  // namespace ingot::cuda
