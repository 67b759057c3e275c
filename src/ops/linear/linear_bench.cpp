// Linears of every format.
#include <fmt/format.h>

#include "bench/op_operands.h"

namespace ingot {
namespace {

using namespace op_bench;

// What multiplies the format's weights: its panels, or floats where it has none.
Multiplies multiplies(Format format) {
  const PanelKind kind = panels_of({.name = "random", .format = format, .rows = kCols, .cols = kCols}).kind;
  if (is_quantized(kind)) return Multiplies::kInt8;
  return kind == PanelKind::kBF16 ? Multiplies::kBf16 : Multiplies::kF32;
}

// The linear with copies of its weight, packed or as it is published.
std::vector<Linear> copied(Bench& b, const Linear& op, double bytes, std::vector<PackedWeight>& weights) {
  std::vector<Linear> ops{op};
  const PackedWeight* packed = op.parts[0].packed;
  weights.assign(copies(bytes), packed != nullptr ? *packed : PackedWeight{});
  for (PackedWeight& w : weights) {
    ops.push_back(op);
    Linear::Part& part = ops.back().parts[0];
    if (packed == nullptr) {
      part.weight.data = b.copy(part.weight.data, part.weight.bytes());
    } else {
      w.data = b.copy(packed->data, packed->bytes());
      part.packed = &w;
    }
  }
  return ops;
}

OpCase linear_case(Format format, int rows) {
  const double bytes = static_cast<double>(kCols * format_row_bytes(format, kCols));
  OpCase c{.op = "linear", .format = std::string(format_name(format))};
  c.shape = fmt::format("{} {}x{}, {} rows", c.format, kCols, kCols, rows);
  c.bytes = bytes + 8.0 * rows * kCols;
  c.flops = 2.0 * rows * kCols * kCols;
  c.by = multiplies(format);
  c.make = [=](ThreadPool& pool) {
    auto b = std::make_shared<Bench>(pool, std::vector<int>{rows}, 0);
    Linear op;
    op.x = b->tokens(kCols);
    op.parts[0].weight = b->weight(format, kCols, kCols);
    op.parts[0].out = b->tokens(kCols);
    cpu::prepare(op, b->prepare);
    auto weights = std::make_shared<std::vector<PackedWeight>>();
    return [weights, run = in_turn(b, copied(*b, op, bytes, *weights))] { run(); };
  };
  return c;
}

}  // namespace

void bench_linear(OpCases& cases) {
#define X(NAME) \
  for (const int rows : {1, 4, 16, 64, 512}) cases.push_back(linear_case(Format::k##NAME, rows));
  INGOT_FORMATS(X)
#undef X
}

}  // namespace ingot
