// Factors and rotations folded into checkpoints: the model that is written answers as the one it was made of.
#include <unistd.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "compress/fold/rotate.h"
#include "compress/fold/scale_groups.h"
#include "compress/fold/scale_search.h"
#include "compress/quantize.h"
#include "golden/support.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

const std::vector<std::string> kAlways = {"llama",   "llama-tied-bias", "qwen2", "qwen3",     "phi3",   "granite",
                                          "mixtral", "qwen2-moe",       "olmoe", "qwen3-moe", "smollm3"};

Model open(const std::string& path) { return Model::load(path, layer_options(64)); }

// Every group by factors between 1/4 and 4.
std::shared_ptr<const Fold> random_scales(const Model& model, size_t& groups) {
  auto fold = std::make_shared<Fold>();
  std::mt19937 random(5);
  const std::vector<ScaleGroup> found = find_scale_groups(model, "awq");
  for (const ScaleGroup& group : found) {
    std::vector<float> scales;
    for (int64_t c = 0; c < group.channels; ++c)
      scales.push_back(std::exp2(static_cast<float>(random() % 4001) / 1000 - 2));
    fold_scales(group, model, scales, *fold);
  }
  groups = found.size();
  return fold;
}

class Folded : public testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { std::filesystem::remove_all(out_); }

  // What the written model says, as far as it is from the checkpoint: the largest difference over the largest logit.
  double distance(const std::string& from, const std::shared_ptr<const Fold>& fold, const std::string& suffix) {
    out_ = fmt::format("{}ingot_folded_{}{}", testing::TempDir(), getpid(), suffix);
    std::filesystem::remove_all(out_);
    QuantizeOptions options;
    options.model = from;
    options.out = out_;
    options.format = "f32";
    options.fold = fold;
    quantize(options, *nearest_rounder());
    const std::vector<int32_t> tokens = {3, 9, 27, 5, 40, 11, 2, 33, 60, 7};
    TestEngine before(from, {.kernels = Kernels::kRef, .fuse_off = {"all"}}),
        after(out_, {.kernels = Kernels::kRef, .fuse_off = {"all"}});
    const auto want = all_logits(*before.engine, tokens), got = all_logits(*after.engine, tokens);
    double largest = 0, off = 0;
    for (size_t r = 0; r < want.size(); ++r) {
      for (size_t i = 0; i < want[r].size(); ++i) {
        largest = std::max<double>(largest, std::abs(want[r][i]));
        off = std::max<double>(off, std::abs(want[r][i] - got[r][i]));
      }
    }
    return off / largest;
  }

  std::string out_;
};

TEST_P(Folded, ScalesKeepTheFunction) {
  const std::string from = arch_directory(GetParam());
  try {
    size_t groups = 0;
    const Model model = open(from);
    const auto fold = random_scales(model, groups);
    EXPECT_GE(groups, 2u * static_cast<size_t>(model.hp.layers));
    EXPECT_LT(distance(from, fold, model.hp.transposed_linears ? ".gguf" : ""), 1e-4);
  } catch (const Error& error) {
    EXPECT_EQ(std::ranges::count(kAlways, GetParam()), 0) << error.what();
  }
}

TEST_P(Folded, RotationKeepsTheFunction) {
  const std::string from = arch_directory(GetParam());
  try {
    EXPECT_LT(distance(from, rotation_fold(open(from), 1), ""), 1e-4);
  } catch (const Error& error) {
    EXPECT_EQ(std::ranges::count(kAlways, GetParam()), 0) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Arch, Folded, testing::ValuesIn(arch_names()),
                         [](const auto& one) { return test_name(one.param); });

// Into GGUF, where q and k lie in another order, norms have their 1 and experts are stacked.
class FoldedGguf : public Folded {};

TEST_P(FoldedGguf, KeepsTheFunction) {
  const std::string from = arch_directory(GetParam());
  const Model model = open(from);
  size_t groups = 0;
  EXPECT_LT(distance(from, random_scales(model, groups), ".gguf"), 1e-4);
  if (GetParam() != "gemma3" && GetParam() != "gpt2") {
    EXPECT_LT(distance(from, rotation_fold(model, 1), ".gguf"), 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Arch, FoldedGguf,
                         testing::Values("llama", "llama-tied-bias", "phi3", "gemma3", "mixtral", "qwen2-moe", "gpt2",
                                         "glm4-moe", "deepseek-v2", "deepseek-v3", "dots1", "minimax-m2",
                                         "ernie4.5-moe", "hunyuan-moe", "mimo-v2-flash"),
                         [](const auto& one) { return test_name(one.param); });

// What awq finds is folded, too; experts' matrices have importances, under the names of files and of stacks.
class FoldedSearch : public Folded {};

TEST_P(FoldedSearch, KeepsTheFunction) {
  const std::string from = arch_directory(GetParam()),
                    scratch = fmt::format("{}ingot_folded_{}", testing::TempDir(), getpid());
  CalibrationText text{.tokens = {}, .chunk_rows = 32, .dataset = "some", .hash = "none"};
  for (int32_t i = 0; i < 8 * 32; ++i) text.tokens.push_back((i * i + 7 * i) % 60 + 1);
  QuantizeOptions options;
  options.model = from;
  options.out = scratch + ".gguf";
  options.format = "q4_0";
  options.pure = true;
  const PlannedFormats formats = planned_formats(options);
  const ScaledModel one =
      search_scales(ScaleMethod::kAwq, {.model = from, .scratch = scratch, .threads = 1}, text, formats);
  const ScaledModel two =
      search_scales(ScaleMethod::kSmooth, {.model = from, .scratch = scratch, .threads = 2}, text, formats);
  const int layers = Model::read_numbers(ModelFiles::open(from)).layers;
  EXPECT_GE(one.groups, 3 * layers);
  EXPECT_GE(one.scaled, 2 * layers);
  for (const auto& [name, format] : formats) {
    if (name.find("layers") == std::string::npos && name.find(".h.") == std::string::npos) continue;
    EXPECT_FALSE(one.importances(name, name.find(".experts.") != std::string::npos ? 0 : -1).empty()) << name;
  }
  EXPECT_LT(distance(from, one.fold, ".gguf"), 1e-4);
  EXPECT_LT(distance(from, two.fold, ".gguf"), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Arch, FoldedSearch, testing::Values("mixtral", "qwen2-moe", "gpt2", "gemma2", "phi3"),
                         [](const auto& one) { return test_name(one.param); });

std::string why_not_rotated(const std::string& name) {
  try {
    rotation_fold(open(arch_directory(name)), 1);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(FoldedOf, WhatANormForbidsIsRefusedByName) {
  EXPECT_EQ(why_not_rotated("gemma2"),
            "[rotate] 'gemma2' cannot be rotated: 'model.layers.0.post_attention_layernorm' (rms_norm) lies between a "
            "matrix and the residual stream");
  EXPECT_NE(why_not_rotated("gemma3").find("'gemma3' cannot be rotated"), std::string::npos);
  EXPECT_NE(why_not_rotated("olmo2").find("'olmo2' cannot be rotated"), std::string::npos);
  EXPECT_NE(why_not_rotated("gpt2").find("(layer_norm) reads the residual stream"), std::string::npos);
  try {
    find_scale_groups(open(arch_directory("olmo2")), "awq");
    ADD_FAILURE() << "olmo2 has no norm before its matrices";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "[awq] 'olmo2' has no norm before 'model.layers.0.self_attn.q_proj.weight': there is nothing that its "
              "columns could be scaled with");
  }
}

}  // namespace
}  // namespace ingot
