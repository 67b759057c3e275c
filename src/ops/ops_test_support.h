// What every op's test uses beside matmul/matmul_test_support.h: batches with shuffled pages, and the comparison of the
// two versions of an op.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "matmul/cpu/packed_store.h"
#include "matmul/matmul_test_support.h"
#include "ops/ctx.h"
#include "ops/op_list.inc"  // every op's header: run() and prepare() are looked up where a template is defined

namespace ingot::test {

// One seq of a test's batch: `rows` rows after `past` positions that the cache holds already.
struct SeqOf {
  int rows = 1;
  int past = 0;
};

// A batch of these seqs, as the engine would fill it; every row's logits are wanted. Pages are dealt in
// a shuffled order (the same for the same seed), never shared.
inline Batch make_batch(const std::vector<SeqOf>& seqs, int page_rows = 16, int n_groups = 1, uint64_t seed = 1) {
  StepLimits limits{
      .rows = 0, .seqs = static_cast<int>(seqs.size()), .logits = 0, .context = 1, .page_rows = page_rows};
  for (const SeqOf& s : seqs) {
    limits.rows += s.rows;
    limits.context = std::max(limits.context, s.rows + s.past);
  }
  limits.logits = limits.rows;
  Batch batch(limits, n_groups);
  batch.n_rows = batch.n_logits = limits.rows;
  batch.n_seqs = limits.seqs;
  std::iota(batch.logit_row.begin(), batch.logit_row.end(), 0);
  Random random(seed);
  for (Batch::Group& group : batch.groups) {
    std::iota(group.page_table.begin(), group.page_table.end(), 0);
    for (size_t i = group.page_table.size(); i > 1; --i)
      std::swap(group.page_table[i - 1], group.page_table[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  }
  int row = 0;
  for (int s = 0; s < batch.n_seqs; ++s) {
    const SeqOf& of = seqs[static_cast<size_t>(s)];
    for (int i = 0; i < of.rows; ++i, ++row) {
      const size_t t = static_cast<size_t>(row);
      batch.position[t] = of.past + i;
      batch.seq[t] = s;
      batch.token[t] = row;
      for (int g = 0; g < n_groups; ++g) {
        const int32_t page = batch.pages(g, s)[batch.position[t] / page_rows];
        batch.groups[static_cast<size_t>(g)].slot[t] = page * page_rows + batch.position[t] % page_rows;
      }
    }
    batch.q_start[static_cast<size_t>(s) + 1] = row;
    batch.kv_len[static_cast<size_t>(s)] = of.past + of.rows;
  }
  return batch;
}

// One seq of T rows from position 0.
inline Batch rows_batch(int rows) { return make_batch({{.rows = rows, .past = 0}}); }

inline StepLimits limits_of(const Batch& batch, int page_rows = 16) {
  return {.rows = batch.n_rows,
          .seqs = batch.n_seqs,
          .logits = batch.n_logits,
          .context = batch.pages_per_seq * page_rows,
          .page_rows = page_rows};
}

template <class Op>
void run_ref(const Op& op, const Batch& batch, int threads = 1) {
  Ctx ctx{.batch = batch, .pool = pool_of(threads), .shape = {.tokens = batch.n_rows, .logits = batch.n_logits}};
  ref::run(op, ctx);
}

// Prepares and runs with scratch of exactly the size that prepare() asked for, poisoned.
template <class Op>
void run_cpu(Op op, const Batch& batch, int threads = 1) {
  PackedStore packed(0);  // however short
  Prepare prepare{.limits = limits_of(batch), .threads = threads, .pool = &pool_of(threads), .packed = &packed};
  cpu::prepare(op, prepare);
  const size_t own = static_cast<size_t>(prepare.scratch_bytes) * static_cast<size_t>(threads);
  const size_t bytes = own + static_cast<size_t>(prepare.shared_bytes);
  std::vector<std::byte> memory(bytes + 64, std::byte{0xff});
  const uintptr_t base = (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64;
  Ctx ctx{.batch = batch,
          .pool = pool_of(threads),
          .shape = {.tokens = batch.n_rows, .logits = batch.n_logits},
          .scratch = reinterpret_cast<std::byte*>(base),
          .scratch_bytes = prepare.scratch_bytes,
          .shared = reinterpret_cast<std::byte*>(base + own)};
  cpu::run(op, ctx);
}

// Runs ref once and cpu with 1, 2 and 3 threads. Before each run the `outs` are poisoned and the
// `inouts` brought back to what they held. cpu must be within `tolerance` of ref, its bits the same for
// every number of threads, and no stray write happen. f32 buffers; leaves cpu's result in them.
template <class Op>
void expect_cpu_matches_ref(const Op& op, const Batch& batch, std::initializer_list<Buffer*> outs,
                            const Tolerance& tolerance, std::initializer_list<Buffer*> inouts = {}) {
  std::vector<std::vector<std::byte>> saved;
  for (Buffer* b : inouts) saved.push_back(b->save());
  const auto reset = [&] {
    for (Buffer* b : outs) b->poison();
    size_t i = 0;
    for (Buffer* b : inouts) b->restore(saved[i++]);
  };
  const auto result = [&] {
    std::vector<std::vector<float>> all;
    for (auto list : {outs, inouts})
      for (Buffer* b : list) {
        b->expect_intact();
        all.push_back(b->values());
      }
    return all;
  };
  std::vector<int64_t> cols;
  for (auto list : {outs, inouts})
    for (Buffer* b : list) cols.push_back(b->cols());
  reset();
  run_ref(op, batch);
  const auto want = result();
  std::vector<std::vector<float>> first;
  for (int threads : {1, 2, 3}) {
    reset();
    run_cpu(op, batch, threads);
    const auto got = result();
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string what = "output " + std::to_string(i) + ", " + std::to_string(threads) + " threads";
      expect_near(got[i], want[i], cols[i], tolerance, "cpu against ref, " + what);
      if (threads > 1) expect_same_bits(got[i], first[i], "against 1 thread, " + what);
    }
    if (threads == 1) first = got;
  }
}

}  // namespace ingot::test
