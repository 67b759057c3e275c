#include "bench/op_operands.h"

namespace ingot {
namespace {

using namespace op_bench;

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

}  // namespace

void bench_sample(OpCases& cases) {
  SamplingParams params;
  params.temperature = 0;
  cases.push_back(sample_case("greedy", params));
  params.temperature = 0.8f;
  params.top_k = 40;
  params.top_p = 0.95f;
  cases.push_back(sample_case("top-k 40", params));
}

}  // namespace ingot
