#include "ladder/q4_linear/q4_linear.h"
#include "matmul/cpu/packed_store.h"

namespace ingot {

namespace ref {

void run(const Q4Linear& op, Ctx& ctx) {
  std::vector<float> row(static_cast<size_t>(op.weight.cols));
  for (int64_t n = 0; n < op.weight.rows; ++n) {
    op.weight.decode_row(n, row.data());
    for (int64_t t = 0; t < ctx.rows(op.x); ++t) {
      double sum = 0;
      for (int64_t k = 0; k < op.weight.cols; ++k)
        sum += static_cast<double>(row[static_cast<size_t>(k)]) * static_cast<double>(op.x.f32(t)[k]);
      op.out.f32(t)[n] = static_cast<float>(sum);
    }
  }
}

}  // namespace ref

namespace ladder {
namespace {

constexpr int64_t kSize = 2048;

Weight random_weight(Operands& o) {
  Weight w{.name = "random", .format = Format::kQ4_0, .rows = kSize, .cols = kSize};
  w.row_bytes = format_row_bytes(w.format, w.cols);
  std::byte* data = o.bytes(w.bytes(), 0);
  const Tensor values = o.tensor(1, kSize + 64);
  for (int64_t n = 0; n < kSize; ++n) format_encode(w.format, values.f32(0) + n % 64, data + n * w.row_bytes, w.cols);
  w.data = data;
  return w;
}

Q4Linear make(Operands& o, int64_t rows) {
  Q4Linear op{.x = o.tensor(rows, kSize), .weight = random_weight(o), .out = o.tensor(rows, kSize)};
  ThreadPool one(1);
  PackedStore store(0);
  PackedWeight packed = *store.pack(op.weight, one);
  std::byte* copy = o.bytes(packed.bytes(), 0);
  std::copy_n(packed.data, packed.bytes(), copy);
  packed.data = copy;
  op.operands = std::make_shared<const cpu::Q4Operands>(op.weight, packed, op.x.f32(0), rows);
  return op;
}

}  // namespace

template <>
std::vector<LadderCase<Q4Linear>> ladder_cases<Q4Linear>(Target) {
  std::vector<LadderCase<Q4Linear>> cases;
  for (const int64_t rows : {1, 64}) {
    cases.push_back({.size = {rows, kSize, kSize},
                     .dtype = "q4_0",
                     .limit = Limit::kRead,
                     .multiplies = Multiplier::kInt8,
                     .make = [rows](Operands& o) { return make(o, rows); }});
  }
  return cases;
}

}  // namespace ladder
}  // namespace ingot
