// What the cases of operators share: their sizes, those of a model with 2048 columns, 32 heads of 64 and 8 KV heads,
// and operands that are larger than the caches.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "bench/op_cases.h"
#include "matmul/cpu/packed_store.h"
#include "ops/op_list.inc"
#include "tensor/memory.h"

namespace ingot::op_bench {

inline constexpr int64_t kCols = 2048;
inline constexpr int kHeads = 32, kKvHeads = 8, kHeadDim = 64, kPageRows = 64;

// The same numbers in every run.
class Numbers {
 public:
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32)) * 0x1p-31f;
  }

 private:
  uint64_t state_ = 1;
};

// Memory, batch and scratch of a case, alive as long as its function.
struct Bench {
  ThreadPool& pool;
  Batch batch;
  StepLimits limits;
  Prepare prepare;
  PackedStore packed;
  std::vector<Memory> memory;
  Memory scratch, shared;
  int64_t left = 0;  // bytes of the last piece of memory that nobody has yet
  size_t next = 0;

  // Seqs of so many rows each, after `past` positions.
  Bench(ThreadPool& p, const std::vector<int>& rows, int past);

  // 64-byte aligned; small ones share huge pages.
  std::byte* take(int64_t bytes);
  std::byte* copy(const std::byte* from, int64_t bytes);
  Tensor tensor(const Rows& kind, int64_t rows, int64_t cols);
  Tensor tokens(int64_t cols) { return tensor(kTokenRows, batch.n_rows, cols); }
  // Random rows; one in 64 is encoded, the others are its copies.
  Weight weight(Format format, int64_t rows, int64_t cols);
};

// A function that runs one op after the other.
template <class Op>
std::function<void()> in_turn(std::shared_ptr<Bench> b, std::vector<Op> ops) {
  b->scratch = Memory(b->prepare.scratch_bytes * b->pool.threads());
  b->shared = Memory(b->prepare.shared_bytes);
  auto list = std::make_shared<std::vector<Op>>(std::move(ops));
  return [b, list] {
    Ctx ctx{.batch = b->batch,
            .pool = b->pool,
            .shape = {.tokens = b->batch.n_rows, .logits = b->batch.n_logits},
            .scratch = b->scratch.data(),
            .scratch_bytes = b->prepare.scratch_bytes,
            .shared = b->shared.data()};
    cpu::run((*list)[b->next], ctx);
    b->next = (b->next + 1) % list->size();
  };
}

// Bytes of operands to pass through between two uses of one: three times the last-level cache.
int64_t rotation_bytes();

// How many operands of so many bytes rotation_bytes() are.
size_t copies(double bytes);

// An op made of tensors alone, as often as fits. `make` gives one with operands of its own.
template <class Op, class Make>
OpCase row_case(const std::string& name, int rows, int64_t cols, const Make& make) {
  OpCase c{.op = name, .shape = fmt::format("{} x {}", rows, cols)};
  ThreadPool one(1);
  Bench probe(one, {rows}, 0);
  const Cost cost = make(probe).cost({.tokens = rows, .logits = rows});
  c.bytes = cost.bytes;
  c.flops = cost.flops;
  c.make = [rows, make, cost](ThreadPool& pool) {
    auto b = std::make_shared<Bench>(pool, std::vector<int>{rows}, 0);
    std::vector<Op> ops;
    for (size_t i = 0; i < copies(cost.bytes); ++i) {
      ops.push_back(make(*b));
      cpu::prepare(ops.back(), b->prepare);
    }
    return in_turn(b, std::move(ops));
  };
  return c;
}

}  // namespace ingot::op_bench
