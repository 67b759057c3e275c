// Experts spread over ranks, and products cut by their inputs: every architecture.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "base/data_test_support.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/model/ranks_test_support.h"
#include "graph/traits.h"
#include "quant/format_test_support.h"

namespace ingot {
namespace {

bool has_experts(const std::string& arch) {
  std::ifstream in(committed_data("arch/" + arch + "/config.json"));
  std::stringstream text;
  text << in.rdbuf();
  return text.str().find("experts") != std::string::npos;
}

std::vector<std::string> with_experts() {
  std::vector<std::string> names = architectures_here();
  std::erase_if(names, [](const std::string& name) { return !has_experts(name); });
  return names;
}

// For each layer with experts: the first one is busiest.
std::vector<std::vector<int64_t>> some_uses(const Model& model) {
  std::vector<std::vector<int64_t>> uses;
  for (const Node& node : model.graph.nodes) {
    const auto* router = std::get_if<RouterTopk>(&node.op);
    if (router == nullptr) continue;
    std::vector<int64_t>& layer = uses.emplace_back();
    for (int64_t e = 0; e < router->logits.cols; ++e) layer.push_back(e == 0 ? 100 : 10 - e % 3);
  }
  return uses;
}

std::string refusal(const std::string& arch, const ModelOptions& options) {
  try {
    Model::load(committed_data("arch/" + arch), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

class RanksOfExperts : public testing::TestWithParam<std::string> {};

TEST_P(RanksOfExperts, BitsOfOne) {
  const std::string path = committed_data("arch/" + GetParam());
  const Model whole = Model::load(path, {.context = 64});
  const auto uses = some_uses(whole);
  ASSERT_FALSE(uses.empty());
  const Logits one = run_both(whole, 1);
  for (const int ranks : {2, 3, 4})
    expect_same_bits(run_both(Model::load(path, {.context = 64, .ep = ranks}), ranks), one,
                     std::to_string(ranks) + " ranks");
  expect_same_bits(run_both(Model::load(path, {.context = 64, .ep = 3, .expert_uses = uses}), 4), one,
                   "3 ranks, the busiest repeated");
  expect_same_bits(run_both(Model::load(path, {.context = 64, .fuse_off = {"all"}, .tp = 2, .ep = 2}), 2), one,
                   "2 ranks, unfused");
}

INSTANTIATE_TEST_SUITE_P(All, RanksOfExperts, testing::ValuesIn(with_experts()),
                         [](const auto& given) { return test_name(given.param); });

TEST(RanksExperts, AreSpread) {
  const Model two = Model::load(committed_data("arch/qwen3-moe"), {.context = 64, .ep = 2});
  size_t of_one = 0, all = 0;
  for (const Node& node : two.graph.nodes)
    if (const auto* op = std::get_if<ExpertLinear>(&node.op)) all += op->parts[0].weights.size();
  for (const Node& node : two.ranks[1].nodes)
    if (const auto* op = std::get_if<ExpertLinear>(&node.op)) of_one += op->parts[0].weights.size();
  EXPECT_GT(of_one, 0u);
  EXPECT_EQ(2 * of_one, all);
}

TEST(RanksExperts, WhatCannotBeSpreadIsRefused) {
  EXPECT_EQ(refusal("llama", {.context = 64, .ep = 2}), "[ep] llama has no experts: --tp shares its layers");
  EXPECT_EQ(refusal("mixtral", {.context = 64, .ep = 5}), "[ep] 5 ranks for 4 experts: each needs one");
  EXPECT_EQ(refusal("mixtral", {.context = 64, .tp = 4, .ep = 2}),
            "[ep] --ep 2 beside --tp 4: ranks that have whole experts share all else");
  EXPECT_EQ(refusal("mixtral", {.context = 64, .ep = 2, .expert_uses = {{1, 2}}}),
            "[ep] the uses of experts are another model's: layer 0 with experts has 4");
}

// The mean square of the difference, of one of the values.
double error_of(const Logits& got, const Logits& want) {
  double error = 0, power = 0;
  for (size_t r = 0; r < want.size(); ++r)
    for (size_t i = 0; i < want[r].size(); ++i) {
      const double difference = static_cast<double>(got[r][i]) - static_cast<double>(want[r][i]);
      error += difference * difference;
      power += static_cast<double>(want[r][i]) * static_cast<double>(want[r][i]);
    }
  return error / power;
}

std::vector<size_t> largest_of(const Logits& logits) {
  std::vector<size_t> best;
  for (const auto& row : logits) best.push_back(static_cast<size_t>(std::ranges::max_element(row) - row.begin()));
  return best;
}

// Kernels that leave rows in float32. The fast ones of a CPU that multiplies bf16 or bytes round rows that meet such
// weights, where a sum that ends elsewhere by a bit may become the next value and choose another expert.
Kernels exact_kernels(const Model& model) {
  bool exact = true;
  for (const Node& node : model.graph.nodes)
    each_matrix(node.op, [&](const Weight& weight, const PackedWeight*) { exact &= weight.format == Format::kF32; });
  return exact ? Kernels::kFast : Kernels::kRef;
}

class RanksThatReduce : public testing::TestWithParam<std::string> {};

TEST_P(RanksThatReduce, NearOneRank) {
  const std::string path = committed_data("arch/" + GetParam());
  const Model whole = Model::load(path, {.context = 64});
  const Kernels kernels = exact_kernels(whole);
  const Logits one = run_both(whole, 1, kernels);
  for (const int ranks : {2, 3, 4}) {
    const ModelOptions options{.context = 64, .tp = ranks, .tp_form = ShardForm::kReduce};
    const Logits near = run_both(Model::load(path, options), ranks, kernels);
    EXPECT_LE(error_of(near, one), 1e-6) << ranks << " ranks";
    EXPECT_EQ(largest_of(near), largest_of(one)) << ranks << " ranks";
    const Logits several = run_both(Model::load(path, options), ranks);
    expect_same_bits(run_both(Model::load(path, options), 2 * ranks), several, "with twice the threads");
    ModelOptions unfused = options;
    unfused.fuse_off = {"all"};
    if (ranks == 2) expect_same_bits(run_both(Model::load(path, unfused), ranks), several, "unfused");
  }
  if (!has_experts(GetParam())) return;
  const ModelOptions spread{.context = 64, .ep = 3, .tp_form = ShardForm::kReduce};
  EXPECT_LE(error_of(run_both(Model::load(path, spread), 3, kernels), one), 1e-6) << "experts on 3 ranks";
}

INSTANTIATE_TEST_SUITE_P(All, RanksThatReduce, testing::ValuesIn(architectures_here()),
                         [](const auto& given) { return test_name(given.param); });

int count_sums(const Graph& graph) {
  int sums = 0;
  for (const Node& node : graph.nodes)
    sums += std::holds_alternative<AllReduce>(node.op) || std::holds_alternative<AllReduceAddNorm>(node.op);
  return sums;
}

// Every format that has blocks: cut where they end, or not at all.
TEST(RanksReduce, EveryFormat) {
  for (const Format format : test::all_formats()) {
    const auto load = [&](int ranks) {
      return Model::random(small_llama({.hidden = 256, .head_dim = 64, .context = 64}),
                           [format](const std::string&) { return format; },
                           {.context = 64, .tp = ranks, .tp_form = ShardForm::kReduce});
    };
    const Logits one = run_both(load(1), 1);
    for (const int ranks : {2, 3}) {
      const Logits several = run_both(load(ranks), ranks);
      // Where x is rounded, a sum that ends elsewhere by a bit may become the next byte (q5_1: 1.3e-5), or the next
      // bf16 on a CPU that multiplies these (f8_e4m3: 1.2e-5).
      const bool kept = format == Format::kF32 || format == Format::kF16;
      EXPECT_LE(error_of(several, one), kept ? 1e-6 : 1e-4) << format_name(format) << ", " << ranks << " ranks";
    }
  }
}

TEST(RanksReduce, TwoSumsInALayer) {
  const Model model =
      Model::load(committed_data("arch/llama"), {.context = 64, .tp = 2, .tp_form = ShardForm::kReduce});
  int joined = 0, gathers = 0;
  for (const Node& node : model.ranks[1].nodes) {
    joined += std::holds_alternative<AllReduceAddNorm>(node.op);
    gathers += std::holds_alternative<AllGather>(node.op);
  }
  EXPECT_EQ(count_sums(model.ranks[1]), 2 * model.hp.layers);
  EXPECT_GT(joined, 0);
  EXPECT_EQ(gathers, 1);  // the logits
}

// Blocks of 256 do not end where two heads of 64 do: that product is cut by its outputs.
TEST(RanksReduce, BlocksAreNotCut) {
  const auto load = [&](Format format) {
    return Model::random(small_llama({.hidden = 256, .head_dim = 64, .context = 64}),
                         [format](const std::string&) { return format; },
                         {.context = 64, .tp = 2, .tp_form = ShardForm::kReduce});
  };
  EXPECT_LT(count_sums(load(Format::kQ4_K).ranks[0]), count_sums(load(Format::kQ4_0).ranks[0]));
}

}  // namespace
}  // namespace ingot
