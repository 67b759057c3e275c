#include "ops/all_reduce_add_norm/all_reduce_add_norm.h"

#include <memory>
#include <thread>

#include "comm/comm_local.h"
#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;

struct Case {
  int64_t rows, cols;
  Buffer x, residual, sum, out;
  std::vector<float> weight;

  Case(int64_t r, int64_t c, int rank)
      : rows(r), cols(c), x(r, c), residual(r, c), sum(r, c), out(r, c), weight(static_cast<size_t>(c)) {
    Random own(static_cast<uint64_t>(rank) + 5), all(77);
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < cols; ++i) {
        x.tensor().f32(t)[i] = own.normal();
        residual.tensor().f32(t)[i] = all.normal();
      }
    for (float& w : weight) w = all.normal();
  }
  AllReduceAddNorm op(Comm& comm) {
    Weight w{.name = "norm", .rows = 1, .cols = cols, .row_bytes = cols * 4};
    w.data = reinterpret_cast<const std::byte*>(weight.data());
    return {.x = x.tensor(),
            .residual = residual.tensor(),
            .weight = w,
            .sum = sum.tensor(),
            .out = out.tensor(),
            .eps = 1e-5f,
            .comm = &comm};
  }
};

// Bit for bit the three ops of which it is made, and near the reference.
void run_rank(Comm& comm, int64_t rows, int64_t cols, int threads) {
  Batch batch = test::rows_batch(static_cast<int>(rows));
  ThreadPool pool(threads);
  Ctx ctx{.batch = batch, .pool = pool, .shape = {.tokens = rows}};
  Case fused(rows, cols, comm.rank()), parts(rows, cols, comm.rank()), ref(rows, cols, comm.rank());
  cpu::run(fused.op(comm), ctx);
  const AllReduceAddNorm op = parts.op(comm);
  cpu::run(AllReduce{.x = op.x, .out = op.x, .comm = &comm}, ctx);
  cpu::run(AddRmsNorm{.a = op.residual, .b = op.x, .weight = op.weight, .sum = op.sum, .out = op.out, .eps = op.eps},
           ctx);
  ref::run(ref.op(comm), ctx);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < cols; ++i) {
      ASSERT_EQ(fused.sum.tensor().f32(t)[i], parts.sum.tensor().f32(t)[i]) << t << ", " << i;
      ASSERT_EQ(fused.out.tensor().f32(t)[i], parts.out.tensor().f32(t)[i]) << t << ", " << i;
      ASSERT_NEAR(fused.out.tensor().f32(t)[i], ref.out.tensor().f32(t)[i], 1e-4) << t << ", " << i;
    }
}

TEST(AllReduceAddNorm, IsItsParts) {
  for (const int ranks : {1, 2, 3}) {
    auto comms = make_local_comms(ranks, false);
    std::vector<std::thread> threads;
    for (const auto& comm : comms)
      threads.emplace_back([&comm] {
        run_rank(*comm, 1, 48, 1);
        run_rank(*comm, 7, 4'001, 2);
      });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace ingot
