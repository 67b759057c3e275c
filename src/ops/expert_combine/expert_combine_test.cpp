#include "ops/expert_combine/expert_combine.h"

#include <memory>
#include <thread>

#include "comm/comm_local.h"
#include "ops/ops_test_support.h"
#include "tensor/memory.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;

float place_at(int64_t t, int64_t j, int64_t i) {
  return std::ldexp(static_cast<float>(1 + t % 5), static_cast<int>((t + j * 11 + i) % 19)) / 3;
}

// `busy`: one rank has everything.
void run_rank(Comm& comm, int64_t rows, int64_t used, int64_t n, bool weighted, bool busy, bool ref) {
  const Batch batch = test::rows_batch(static_cast<int>(rows));
  Buffer places(rows, used * n), ranks(rows, used, kTokenRows, used, DType::kI32), weights(rows, used), out(rows, n);
  ExpertCombine op{
      .places = places.tensor(), .ranks = ranks.tensor(), .weights = {}, .out = out.tensor(), .comm = &comm};
  if (weighted) op.weights = weights.tensor();
  Random random(9);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t j = 0; j < used; ++j) {
      const auto who = static_cast<int32_t>(busy ? comm.ranks() - 1 : random.below(comm.ranks()));
      op.ranks.row<int32_t>(t)[j] = who;
      weights.tensor().f32(t)[j] = random.normal();
      for (int64_t i = 0; i < n; ++i) op.places.f32(t)[j * n + i] = who == comm.rank() ? place_at(t, j, i) : NAN;
    }
  ThreadPool pool(1);
  Prepare prepare{.limits = test::limits_of(batch), .pool = &pool};
  cpu::prepare(op, prepare);
  Memory shared(prepare.shared_bytes);
  Ctx ctx{.batch = batch, .pool = pool, .shape = {.tokens = rows}, .shared = shared.data()};
  if (ref) {
    ref::run(op, ctx);
  } else {
    cpu::run(op, ctx);
  }
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < used; ++j) sum += (weighted ? weights.tensor().f32(t)[j] : 1) * place_at(t, j, i);
      ASSERT_EQ(op.out.f32(t)[i], sum) << rows << " rows, row " << t << ", " << i;
    }
}

TEST(ExpertCombine, AddsInTheOrderOfTheRow) {
  for (const int ranks : {1, 2, 3, 4}) {
    auto comms = make_local_comms(ranks, false);
    std::vector<std::thread> threads;
    for (const auto& comm : comms)
      threads.emplace_back([&comm] {
        for (const bool weighted : {false, true}) {
          for (const bool busy : {false, true}) {
            run_rank(*comm, 1, 2, 48, weighted, busy, false);
            run_rank(*comm, 5, 3, 33, weighted, busy, true);
            run_rank(*comm, 40, 3, 801, weighted, busy, false);  // by columns
          }
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace ingot
