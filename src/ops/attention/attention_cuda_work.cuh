// What the blocks of the split kernel do. A unit is a KV head and a tile of packed rows of a seq. Its keys, in steps of
// 64, are cut into segments, and a block takes one segment after another.
//
// Where there are more units than blocks, all steps of all units are laid end to end, and every block gets as many of
// them: seqs of any length keep all blocks busy until the end, and few units are cut. Where there are fewer, a block
// has one segment, and a unit as many as its length asks for; where there are very few, clusters of blocks share a
// unit, so that results meet without a way through memory. In batch-invariant mode units are cut at absolute positions
// instead; a block takes one segment, or in fold mode all of a unit.
#pragma once

#include "ops/attention/attention_cuda_tile.cuh"

namespace ingot::cuda {

inline constexpr int kGroups = 4;
inline constexpr int kTileKeys = 16;    // a page is a multiple, so a tile lies in one
inline constexpr int kWhole = 1 << 24;  // steps: no unit has as many

struct SplitSegment {
  int slots;  // of the ring that its tiles take in each group; 0: there is no such segment
  int seq, kv_head;
  int q_begin;     // the seq's first row
  int past;        // positions in front of this step's rows
  int first, end;  // packed rows of the seq
  int keys_begin, keys_end;
  int seen_end;         // the last position that any row sees, and 1
  int split, n_splits;  // which of the unit's segments
  int part, part_step;  // split i leaves its results at part + i · part_step; where part_step is 2, split 0 at part + 1
  int ticket;

  __device__ int part_of(int i) const { return part + i * part_step + (part_step == 2 && i == 0 ? 1 : 0); }
};

// In shared memory. begin() by a whole warp; then next() by one thread.
struct SplitList {
  int left = 0;            // pieces that this block has still to take
  int offset = 0;          // of the next segment: pieces into its unit
  int seq = 0, unit = 0;   // the next segment's; units of a seq are counted from 0
  int pieces = 0;          // of a unit of the seq
  int piece = 0;           // keys of one
  int tiles = 0;           // of the seq's packed rows
  int place = 0;           // of the unit's first piece among all
  int each = 0, more = 0;  // pieces of a block: the first `more` blocks have one more than `each`
  int share = 1;           // steps that a piece has at most

  // kPacked: packed rows of a tile.
  template <int kPacked>
  __device__ void begin(const AttentionArgs& a) {
    SplitList list;
    if (a.split_keys != 0) {
      list.begin_fixed<kPacked>(a);
    } else if (a.clusters) {
      list.begin_cluster<kPacked>(a);
    } else {
      list.begin_shared<kPacked>(a);
    }
    if (threadIdx.x % 32 == 0) *this = list;
  }

  // kSlots: a segment takes as many slots at least.
  template <int kPacked, int kSlots>
  __device__ void next(const AttentionArgs& a, SplitSegment& to) {
    to.slots = 0;
    if (left == 0) return;
    const Seq s(a, seq);
    to.seq = seq;
    to.kv_head = unit / tiles;
    to.q_begin = s.q_begin;
    to.past = s.length - s.rows;
    to.first = unit % tiles * kPacked;
    to.end = min(s.rows * a.group, to.first + kPacked);
    to.seen_end = to.past + (to.end - 1) / a.group + 1;
    const int seen_begin = first_key(a, to.past + to.first / a.group);
    if (a.split_keys != 0) {
      cut_fixed(a, to, seen_begin);
    } else if (a.clusters) {
      cut_cluster(a, to);
    } else {
      cut_shared(a, to);
    }
    to.keys_begin = max(to.keys_begin, seen_begin);
    to.keys_end = min(to.keys_end, to.seen_end);
    const int tiles_of_keys = (to.keys_end - to.keys_begin + kTileKeys - 1) / kTileKeys;
    to.slots = max(kSlots, (tiles_of_keys + kGroups - 1) / kGroups);
    if (left > 0 && offset == pieces) next_unit<kPacked>(a);
  }

 private:
  struct Seq {
    int q_begin, rows, length;
    __device__ Seq(const AttentionArgs& a, int s)
        : q_begin(__ldg(a.q_start + s)), rows(__ldg(a.q_start + s + 1) - q_begin), length(__ldg(a.kv_len + s)) {}
    __device__ bool taken(const AttentionArgs& a) const {
      return rows * a.group >= a.least_packed && rows * a.group <= a.most_packed;
    }
    __device__ int steps(const AttentionArgs& a) const {
      return (length - first_key(a, length - rows) + kSplitStep - 1) / kSplitStep;
    }
    // Equal ones, where none has more than `share` steps.
    __device__ int steps_of_piece(const AttentionArgs& a, int share) const {
      return share == 1 ? 1 : divide_up(steps(a), max(1, divide_up(steps(a), share)));
    }
    __device__ int pieces(const AttentionArgs& a, int share) const {
      return divide_up(steps(a), max(1, steps_of_piece(a, share)));
    }
    template <int kPacked>
    __device__ int tiles(const AttentionArgs& a) const {
      return (rows * a.group + kPacked - 1) / kPacked;
    }
  };

  __device__ static int divide_up(int x, int y) { return (x + y - 1) / y; }
  // The first key that a row at this position sees, rounded down to a multiple of the step.
  __device__ static int first_key(const AttentionArgs& a, int position) {
    return a.window > 0 ? max(0, position - a.window + 1) / kSplitStep * kSplitStep : 0;
  }
  // Pieces of all tiles of a seq and one KV head. Without a branch around its loads, so that those of several seqs are
  // on their way together.
  template <int kPacked>
  __device__ static int weight(const AttentionArgs& a, int s, int end, int share) {
    const Seq seq(a, min(s, a.seqs - 1));
    const int all = seq.pieces(a, share) * seq.tiles<kPacked>(a);
    return s < min(end, a.seqs) && seq.taken(a) ? all : 0;
  }
  // Of the seqs of this lane, which come one after another.
  template <int kPacked>
  __device__ static int weights(const AttentionArgs& a, int share) {
    const int of_lane = (a.seqs + 31) / 32, first = static_cast<int>(threadIdx.x) % 32 * of_lane;
    int all = 0;
    for (int i = 0; i < of_lane; i += 4) {
#pragma unroll
      for (int j = 0; j < 4; ++j) all += weight<kPacked>(a, first + i + j, first + of_lane, share);
    }
    return all;
  }
  __device__ static int sum_through(int x) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const int other = __shfl_up_sync(0xffffffffu, x, d);
      if (lane >= d) x += other;
    }
    return x;
  }
  // The block that takes this of all pieces.
  __device__ int block_of(int i) const {
    const int of_more = more * (each + 1);
    return i < of_more ? i / (each + 1) : more + (i - of_more) / each;
  }

  template <int kPacked>
  __device__ void begin_shared(const AttentionArgs& a) {
    const int lane = static_cast<int>(threadIdx.x) % 32, of_lane = (a.seqs + 31) / 32;
    const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
    int mine = weights<kPacked>(a, share), through = sum_through(mine);
    int all = __shfl_sync(0xffffffffu, through, 31) * a.kv_heads;
    const int units = __shfl_sync(0xffffffffu, sum_through(weights<kPacked>(a, kWhole)), 31) * a.kv_heads;
    if (units <= blocks && (a.trial & 8) == 0) {
      for (share = max(1, divide_up(all, blocks)); all > blocks; share += 1 + share / 8) {
        mine = weights<kPacked>(a, share);
        through = sum_through(mine);
        all = __shfl_sync(0xffffffffu, through, 31) * a.kv_heads;
        if (all <= blocks) break;
      }
    }
    each = all / blocks;
    more = all % blocks;
    left = each + (block < more ? 1 : 0);
    if (left == 0) return;
    const int at = block * each + min(block, more);
    const int of_head = at / a.kv_heads;  // as if there were one KV head
    const int source = __ffs(static_cast<int>(__ballot_sync(0xffffffffu, of_head < through))) - 1;
    int before = __shfl_sync(0xffffffffu, through - mine, source);
    for (int s = source * of_lane;; s += 32) {
      const int here = weight<kPacked>(a, s + lane, source * of_lane + of_lane, share);
      const int up_to = before + sum_through(here);
      const unsigned found = __ballot_sync(0xffffffffu, of_head < up_to);
      const int owner = found != 0 ? __ffs(static_cast<int>(found)) - 1 : 31;
      seq = s + owner;
      before = __shfl_sync(0xffffffffu, found != 0 ? up_to - here : up_to, owner);
      if (found != 0) break;
    }
    take_seq<kPacked>(a);
    const int rest = at - before * a.kv_heads;
    unit = rest / pieces;
    offset = rest % pieces;
    place = at - offset;
  }
  __device__ void cut_shared(const AttentionArgs& a, SplitSegment& to) {
    const int n = min(left, pieces - offset), first_block = block_of(place);
    to.keys_begin = first_key(a, to.past) + offset * piece;
    to.keys_end = to.keys_begin + n * piece;
    to.split = static_cast<int>(blockIdx.x) - first_block;
    to.n_splits = block_of(place + pieces - 1) - first_block + 1;
    // A block has at most one segment that ends a unit which another block began, and one the other way round.
    to.part = 2 * first_block;
    to.part_step = 2;
    to.ticket = first_block;
    left -= n;
    offset += n;
  }
  template <int kPacked>
  __device__ void next_unit(const AttentionArgs& a) {
    place += pieces;
    offset = 0;
    if (++unit < a.kv_heads * tiles) return;
    unit = 0;
    while (!Seq(a, ++seq).taken(a)) {
    }
    take_seq<kPacked>(a);
  }
  template <int kPacked>
  __device__ void take_seq(const AttentionArgs& a) {
    const Seq s(a, seq);
    pieces = s.pieces(a, share);
    piece = s.steps_of_piece(a, share) * kSplitStep;
    tiles = s.tiles<kPacked>(a);
  }

  // Every unit has one cluster, or several where its keys are many; every block of a cluster has a segment, be it
  // empty.
  template <int kPacked>
  __device__ void begin_cluster(const AttentionArgs& a) {
    const int block = static_cast<int>(blockIdx.x), cluster = block / kClusterBlocks;
    int units = 0;
    for (int s = 0; s < a.seqs; ++s) units += weight<kPacked>(a, s, a.seqs, kWhole) * a.kv_heads;
    const int most = static_cast<int>(gridDim.x) / kClusterBlocks / max(1, units);
    int before = 0;
    for (seq = 0; seq < a.seqs; ++seq) {
      const Seq s(a, seq);
      if (!s.taken(a)) continue;
      const int keys = s.length - first_key(a, s.length - s.rows), n = min(most, divide_up(keys, kClusterKeys));
      tiles = s.tiles<kPacked>(a);
      const int at = cluster - before;
      before += a.kv_heads * tiles * n;
      if (cluster >= before) continue;
      unit = at / n;
      piece = divide_up(divide_up(keys, n * kClusterBlocks), kTileKeys) * kTileKeys;
      pieces = divide_up(keys, piece);
      place = cluster - at % n;
      offset = at % n * kClusterBlocks + block % kClusterBlocks;
      left = at % n * kClusterBlocks < pieces ? 1 : 0;
      return;
    }
  }
  __device__ void cut_cluster(const AttentionArgs& a, SplitSegment& to) {
    to.keys_begin = first_key(a, to.past) + offset * piece;
    to.keys_end = to.keys_begin + piece;
    to.split = offset / kClusterBlocks;
    to.n_splits = divide_up(pieces, kClusterBlocks);
    to.part = to.ticket = place;
    to.part_step = 1;
    left = 0;
  }

  template <int kPacked>
  __device__ void begin_fixed(const AttentionArgs& a) {
    seq = static_cast<int>(blockIdx.z);
    unit = static_cast<int>(blockIdx.y);
    tiles = a.tiles;
    offset = static_cast<int>(blockIdx.x);
    const Seq s(a, seq);
    const int first = unit % tiles * kPacked, end = min(s.rows * a.group, first + kPacked);
    if (first >= end || !s.taken(a)) return;
    const int past = s.length - s.rows;
    const int begin = first_key(a, past + first / a.group) / a.split_keys * a.split_keys;
    pieces = divide_up(past + (end - 1) / a.group + 1 - begin, a.split_keys);
    piece = a.split_keys;
    if (offset < pieces) left = a.fold ? pieces : 1;
  }
  __device__ void cut_fixed(const AttentionArgs& a, SplitSegment& to, int seen_begin) {
    to.keys_begin = seen_begin / piece * piece + offset * piece;
    to.keys_end = to.keys_begin + piece;
    to.split = offset;
    to.n_splits = pieces;
    to.ticket = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y);
    to.part = to.ticket * a.splits;
    to.part_step = 1;
    --left;
    ++offset;
  }
};

}  // namespace ingot::cuda
