// The inner loops of Attention and of the writes to its cache, compiled once for each instruction set
// (attention_kernels_<set>.cpp, all from attention_table.h) and chosen by it (cpu/isa.h).
//
// A score is one sum over the dimensions, in order; a value's element one sum over the keys of a block, in order: both
// do not depend on what is computed beside them, and are the same for all sets with fma. A cache of narrower
// types becomes floats, in registers for a few queries, in memory, once for all, for many: the same bits. Sets with
// products of bf16 use them for a cache in pairs (KvLayer::pairs), at every number of queries.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa.h"
#include "ops/kv_cache.h"

namespace ingot::cpu {

// Of some queries: the maximum of the scores so far, the sum of exp(score - max), and the factors with which the state
// before and the latest block are to be added.
struct SoftmaxState {
  float *max, *sum, *keep, *add;
};

// What each query of a task sees of a block of keys: [begin[i], end[i]), counted from the block's start; perhaps none.
struct SeenRanges {
  const int32_t *begin, *end;
};

// Products of bf16 with sums in float32, as one instruction makes them: for a cache in pairs, see fits().
struct Bf16Products {
  static constexpr int kDepth = 4;  // of a step

  // Both sides are pairs: for each two rows (or columns) and each step 4 values of the one, then 4 of the other. Rows
  // of floats, rounded: [ceil(n / 2)][depth / 4][8]. REQUIRES: depth is a multiple of 4.
  void (*pack_rows)(const float* const* rows, int64_t n, int64_t depth, uint16_t* out);

  // One key or value into its lane of a group, rounded. A group is the columns of products as it lies.
  void (*store_key)(const float* key, int64_t dim, std::byte* group, int64_t lane);
  void (*store_value)(const float* value, int64_t dim, std::byte* group, int64_t lane);

  // Memory that is asked for while a group of keys is multiplied, as much as it: `far` on its way from memory, `near`
  // into the L1 cache. far null: neither.
  struct Asked {
    const std::byte *far, *near;
  };

  // out[i · stride + lane] = q[i] · key `lane` of the group, over the dimensions in order; q as pack_rows() makes them.
  void (*scores)(const uint16_t* q, int64_t nq, int64_t dim, const std::byte* group, const Asked& asked, float* out,
                 int64_t stride);

  // out[i · stride + d] = the sum of weights[i][j] · dimension d of value j, over 4 · n keys in order; groups[j / 4]
  // holds value j, far[j / 4] is asked for where far is given. `depth` is the keys of a row of weights, which are rows
  // in pairs.
  void (*mix)(const uint16_t* weights, int64_t nq, int64_t depth, const std::byte* const* groups,
              const std::byte* const* far, int64_t n, int64_t dim, float* out, int64_t stride);

  // A group of values with zeros in the lanes outside [begin, end): what nobody sees may be anything, and must not meet
  // a weight of 0.
  void (*mask_values)(const std::byte* group, int64_t dim, int64_t begin, int64_t end, std::byte* out);

  // Turns each query's scores [from, to) into weights exp(score · scale - max), capped before (softcap > 0), those it
  // does not see into 0: rows in pairs, [ceil(nq / 2)][(to - from) / 4][8]. max and sum of a query that sees nothing
  // stay as they are.
  void (*weigh)(float* scores, int64_t stride, int64_t nq, const SeenRanges& seen, int64_t from, int64_t to,
                float scale, float softcap, float* max, float* sum, uint16_t* out);

  // Whether heads have sizes that these kernels take.
  static bool fits(int64_t k_dim, int64_t v_dim) { return k_dim % 4 == 0 && v_dim % 8 == 0; }
};

struct AttentionKernels {
  const char* name;

  // One key into its lane of a group, one value into its row (ops/kv_cache.h). A q8_0 block has the scale
  // f16(max|x| / 127), at most kQ8MostScale, and its values are rounded to nearest even; one with NaN or infinity
  // decodes to no number.
  void (*store_key)(DType dtype, const float* key, int64_t dim, std::byte* group, int64_t lane);
  void (*store_value)(DType dtype, const float* value, int64_t dim, std::byte* row);

  // A group of keys as floats [dim][16]; n rows of values, one after another, as floats [n][dim].
  void (*open_keys)(DType dtype, const std::byte* group, int64_t dim, float* out);
  void (*open_values)(DType dtype, const std::byte* rows, int64_t n, int64_t dim, float* out);

  // Up to so many queries, reading the cache's own type is faster than opening it first.
  int64_t direct_queries;

  // out[i · stride + 16 · g + lane] = q[i] · (key `lane` of groups[g]), of a type or opened (f32). Writes up to the
  // next multiple of 64 behind.
  void (*scores)(DType dtype, const float* const* q, int64_t nq, const std::byte* const* groups, int64_t n_groups,
                 int64_t dim, float* out, int64_t stride);

  // Turns each query's scores [from, to) (multiples of 16) into weights exp(score · scale - max), capped before
  // (softcap > 0), those it does not see into 0, and merges their maximum and sum into the state.
  void (*weigh)(float* scores, int64_t stride, int64_t nq, const SeenRanges& seen, int64_t from, int64_t to,
                float scale, float softcap, const SoftmaxState& state);

  // acc[i] = keep[i] · acc[i] + add[i] · sum over the keys j that i sees of weights[i · stride + j] · values[j], in
  // order; acc has rows of dim values, of which those of queries that see none stay as they are. `step` is the bytes
  // from each value to the next, or 0 where they do not lie at equal distances.
  void (*mix)(DType dtype, const float* weights, int64_t stride, int64_t nq, const SeenRanges& seen,
              const std::byte* const* values, int64_t step, int64_t dim, const float* keep, const float* add,
              float* acc);

  // Merges the maxima, sums and values of a part into the state and acc. Uses state.keep and state.add.
  void (*merge)(int64_t nq, const float* part_max, const float* part_sum, const float* part_acc, int64_t dim,
                const SoftmaxState& state, float* acc);

  const Bf16Products* bf16;  // null where the set has none
};

// Of a set, and of the one in use. The second throws Error at the first call when INGOT_ISA names one that this CPU
// does not run.
const AttentionKernels& attention_kernels(Isa isa);
const AttentionKernels& attention_kernels();

}  // namespace ingot::cpu
