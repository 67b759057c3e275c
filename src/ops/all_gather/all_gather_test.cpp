#include "ops/all_gather/all_gather.h"

#include <memory>
#include <thread>

#include "comm/comm_local.h"
#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;

// Rank r's columns of a block of `width`: uneven ones.
void set_columns(AllGather& op, int ranks, int64_t width) {
  for (int r = 0; r < ranks; ++r) {
    const int64_t begin = width * r * r / (ranks * ranks), end = width * (r + 1) * (r + 1) / (ranks * ranks);
    op.begins.push_back(begin);
    op.counts.push_back(end - begin);
  }
}

float value_at(int64_t t, int64_t c) { return static_cast<float>(1000 * t + c); }

void run_rank(Comm& comm, int64_t rows, int64_t width, int64_t blocks, bool ref, bool first_only) {
  Batch batch = test::rows_batch(static_cast<int>(rows));
  AllGather op;
  set_columns(op, comm.ranks(), width);
  const auto own = static_cast<size_t>(comm.rank());
  const int64_t gap = blocks == 1 ? 3 : 0;
  Buffer x(rows, blocks * op.counts[own], kTokenRows, blocks * op.counts[own] + gap);
  Buffer out(rows, blocks * width, kTokenRows, blocks * width + gap);
  op.x = x.tensor();
  op.out = out.tensor();
  op.blocks = blocks;
  op.first_only = first_only;
  op.comm = &comm;
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t c = 0; c < op.counts[own]; ++c)
        op.x.f32(t)[b * op.counts[own] + c] = value_at(t, b * width + op.begins[own] + c);
  ThreadPool pool(1);
  Ctx ctx{.batch = batch, .pool = pool, .shape = {.tokens = rows}};
  if (ref) {
    ref::run(op, ctx);
  } else {
    cpu::run(op, ctx);
  }
  if (first_only && own != 0) return;
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = 0; c < blocks * width; ++c) ASSERT_EQ(op.out.f32(t)[c], value_at(t, c)) << t << ", " << c;
}

TEST(AllGather, EveryRankHasAllColumns) {
  for (const int ranks : {1, 2, 3}) {
    for (const bool ref : {false, true}) {
      auto comms = make_local_comms(ranks, false);
      std::vector<std::thread> threads;
      for (const auto& comm : comms)
        threads.emplace_back([&comm, ref] {
          run_rank(*comm, 1, 48, 1, ref, false);
          run_rank(*comm, 5, 33, 1, ref, false);
          run_rank(*comm, 5, 48, 4, ref, false);
          if (!ref) run_rank(*comm, 3, 20'001, 1, ref, true);
        });
      for (std::thread& thread : threads) thread.join();
    }
  }
}

}  // namespace
}  // namespace ingot
