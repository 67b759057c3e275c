// The steps from a plain product with Q4_0 weights to the one that runs, each with all threads.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bench/op_operands.h"
#include "matmul/cpu/packed_store.h"
#include "ops/linear/ladder/ladder.h"
#include "tensor/memory.h"

namespace ingot {
namespace {

constexpr int64_t kSize = 2048;
constexpr int64_t kPart = 64;  // outputs of a task

// One weight as it is published and packed, and copies of both, so that each run finds them in memory.
struct Operands {
  std::vector<Memory> stored, packed;
  std::vector<Weight> weights;
  std::vector<PackedWeight> panels;
  std::vector<float> x, out;
  std::vector<cpu::LadderOperands> all;
  Memory scratch;
  int64_t scratch_bytes = 0;
  size_t next = 0;
};

Weight random_weight(std::byte* data) {
  Weight w{.name = "random", .format = Format::kQ4_0, .rows = kSize, .cols = kSize};
  w.row_bytes = format_row_bytes(w.format, w.cols);
  w.data = data;
  std::vector<float> values(static_cast<size_t>(kSize));
  for (int64_t n = 0; n < kSize; ++n) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 7919 + static_cast<size_t>(n) * 104729) % 1999) / 1000.0f - 1;
    format_encode(w.format, values.data(), data + n * w.row_bytes, w.cols);
  }
  return w;
}

std::shared_ptr<Operands> make_operands(ThreadPool& pool, int64_t rows) {
  auto o = std::make_shared<Operands>();
  const int64_t bytes = kSize * format_row_bytes(Format::kQ4_0, kSize);
  const auto n = static_cast<size_t>(std::max<int64_t>(2, op_bench::rotation_bytes() / bytes));
  const auto huge = [](int64_t size) { return Memory::huge((size + (2 << 20) - 1) >> 21 << 21); };
  o->stored.push_back(huge(bytes));
  const Weight first = random_weight(o->stored[0].data());
  PackedStore store(0);
  const PackedWeight* panels = store.pack(first, pool);
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) o->stored.push_back(huge(bytes));
    if (i > 0) std::memcpy(o->stored[i].data(), first.data, static_cast<size_t>(bytes));
    o->packed.push_back(huge(panels->bytes()));
    std::memcpy(o->packed[i].data(), panels->data, static_cast<size_t>(panels->bytes()));
    o->weights.push_back(first);
    o->weights[i].data = o->stored[i].data();
    o->panels.push_back(*panels);
    o->panels[i].data = o->packed[i].data();
  }
  o->x.resize(static_cast<size_t>(rows * kSize));
  for (size_t i = 0; i < o->x.size(); ++i) o->x[i] = static_cast<float>(i * 31 % 997) / 500.0f - 1;
  o->out.resize(o->x.size());
  for (size_t i = 0; i < n; ++i) o->all.emplace_back(o->weights[i], o->panels[i], o->x.data(), rows);
  o->scratch_bytes = (cpu::ladder_scratch_bytes(o->all[0], kPart) + 63) / 64 * 64;
  o->scratch = Memory(o->scratch_bytes * pool.threads());
  return o;
}

}  // namespace

void bench_ladder(OpCases& cases) {
  for (const int rows : {1, 64}) {
    for (const cpu::LadderStep& step : cpu::ladder()) {
      OpCase c{.op = "ladder", .shape = fmt::format("{}, {} rows", step.name, rows), .on_request = true};
      c.bytes = static_cast<double>(kSize * format_row_bytes(Format::kQ4_0, kSize)) + 8.0 * rows * kSize;
      c.flops = 2.0 * rows * kSize * kSize;
      c.by = Multiplies::kInt8;
      c.make = [rows, step](ThreadPool& pool) -> std::function<void()> {
        return [o = make_operands(pool, rows), step, &pool] {
          const cpu::LadderOperands& now = o->all[o->next];
          pool.run(kSize / kPart, [&](int64_t i, int thread) {
            step.run(now, i * kPart, kPart, o->out.data(), o->scratch.data() + thread * o->scratch_bytes);
          });
          o->next = (o->next + 1) % o->all.size();
        };
      };
      cases.push_back(std::move(c));
    }
  }
}

}  // namespace ingot
