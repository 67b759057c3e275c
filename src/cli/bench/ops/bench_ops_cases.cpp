// The operators and sizes of ingot bench ops.
#include <fmt/ranges.h>

#include <set>

#include "base/error.h"
#include "cli/bench/ops/bench_ops_operands.h"

namespace ingot {
namespace {

using namespace op_bench;

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

OpCase sample_case(const std::string& how, const SamplingParams& params) {
  constexpr int64_t kVocab = 128'256;
  OpCase c{.op = "sample", .shape = fmt::format("{}, {} tokens", how, kVocab)};
  c.bytes = 4.0 * kVocab;
  c.make = [=](ThreadPool& pool) {
    auto b = std::make_shared<Bench>(pool, std::vector<int>{1}, 0);
    auto given = std::make_shared<SamplingParams>(params);
    auto rows = std::make_shared<std::vector<SampleRow>>(1);
    auto results = std::make_shared<std::vector<SampleResult>>(1);
    (*rows)[0].params = given.get();
    std::vector<Sample> ops;
    for (size_t i = 0; i < copies(4.0 * kVocab); ++i) {
      Sample op;
      op.logits = b->tensor(kLogitRows, 1, kVocab);
      op.rows = *rows;
      op.results = *results;
      cpu::prepare(op, b->prepare);
      ops.push_back(op);
    }
    return [given, rows, results, run = in_turn(b, std::move(ops))] { run(); };
  };
  return c;
}

void add_row_cases(std::vector<OpCase>& cases) {
  for (const int rows : {1, 16, 512}) {
    cases.push_back(row_case<RmsNorm>("rms_norm", rows, kCols, [](Bench& b) {
      return RmsNorm{.x = b.tokens(kCols),
                     .weight = b.weight(Format::kF32, 1, kCols),
                     .out = b.tokens(kCols),
                     .width = kCols,
                     .eps = 1e-5f};
    }));
    cases.push_back(row_case<AddRmsNorm>("add_rms_norm", rows, kCols, [](Bench& b) {
      return AddRmsNorm{.a = b.tokens(kCols),
                        .b = b.tokens(kCols),
                        .weight = b.weight(Format::kF32, 1, kCols),
                        .sum = b.tokens(kCols),
                        .out = b.tokens(kCols),
                        .eps = 1e-5f};
    }));
    cases.push_back(row_case<Glu>("glu", rows, 4 * kCols, [](Bench& b) {
      return Glu{.gate = b.tokens(4 * kCols), .up = b.tokens(4 * kCols), .out = b.tokens(4 * kCols)};
    }));
    cases.push_back(row_case<Rope>("rope", rows, (kHeads + kKvHeads) * kHeadDim, [](Bench& b) {
      return Rope{.q = b.tokens(kHeads * kHeadDim),
                  .k = b.tokens(kKvHeads * kHeadDim),
                  .table = b.tokens(kHeadDim),
                  .head_dim = kHeadDim};
    }));
  }
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  add_linear_cases(cases);
  add_attention_cases(cases);
  add_row_cases(cases);
  SamplingParams params;
  params.temperature = 0;
  cases.push_back(sample_case("greedy", params));
  params.temperature = 0.8f;
  params.top_k = 40;
  params.top_p = 0.95f;
  cases.push_back(sample_case("top-k 40", params));
  return cases;
}

}  // namespace

std::vector<OpCase> op_cases(const std::vector<std::string>& names) {
  std::vector<OpCase> all = all_cases();
  const auto named = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  if (named("ladder")) std::ranges::move(ladder_cases(), std::back_inserter(all));
  std::set<std::string> ops = {"ladder"}, formats;
  for (const OpCase& c : all) {
    ops.insert(c.op);
    if (!c.format.empty()) formats.insert(c.format);
  }
  bool by_op = false, by_format = false;
  for (const std::string& name : names) {
    by_op = by_op || ops.contains(name);
    by_format = by_format || formats.contains(name);
    if (ops.contains(name) || formats.contains(name)) continue;
    throw Error("[bench] there is no operator or format '{}'; known are {}; {}", name, fmt::join(ops, ", "),
                fmt::join(formats, ", "));
  }
  std::erase_if(all, [&](const OpCase& c) {
    if (by_op && !named(c.op)) return true;
    // An operator without formats is meant by its name alone.
    return by_format && !named(c.format) && !(by_op && c.format.empty());
  });
  if (all.empty()) throw Error("[bench] no operator has all of {}", fmt::join(names, ", "));
  return all;
}

}  // namespace ingot
