#include "ops/all_reduce/all_reduce.h"

#include <memory>
#include <thread>

#include "comm/comm_local.h"
#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;

// Sums of such values depend on their order.
float value_at(int rank, int64_t t, int64_t c) {
  return std::ldexp(static_cast<float>(1 + rank), static_cast<int>((t + c + rank * 7) % 23)) / 3;
}

float sum_at(int ranks, int64_t t, int64_t c) {
  float sum = value_at(0, t, c);
  for (int r = 1; r < ranks; ++r) sum += value_at(r, t, c);
  return sum;
}

void run_rank(Comm& comm, int64_t rows, int64_t cols, bool ref, bool in_place) {
  Batch batch = test::rows_batch(static_cast<int>(rows));
  Buffer x(rows, cols), out(rows, cols);
  AllReduce op{.x = x.tensor(), .out = in_place ? x.tensor() : out.tensor(), .comm = &comm};
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = 0; c < cols; ++c) op.x.f32(t)[c] = value_at(comm.rank(), t, c);
  ThreadPool pool(1);
  Ctx ctx{.batch = batch, .pool = pool, .shape = {.tokens = rows}};
  if (ref) {
    ref::run(op, ctx);
  } else {
    cpu::run(op, ctx);
  }
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(op.out.f32(t)[c], sum_at(comm.ranks(), t, c)) << t << ", " << c;
}

TEST(AllReduce, SumsInTheOrderOfRanks) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const bool ref : {false, true}) {
      auto comms = make_local_comms(ranks, false);
      std::vector<std::thread> threads;
      for (const auto& comm : comms)
        threads.emplace_back([&comm, ref] {
          run_rank(*comm, 1, 48, ref, false);
          run_rank(*comm, 5, 33, ref, true);
          run_rank(*comm, 3, 8'001, ref, true);  // more than every rank sums by itself
        });
      for (std::thread& thread : threads) thread.join();
    }
  }
}

}  // namespace
}  // namespace ingot
