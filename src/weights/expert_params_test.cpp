// The numbers of experts as configs spell them, and what contradicts itself.
#include <gtest/gtest.h>

#include "base/error.h"
#include "weights/config.h"
#include "weights/hparams.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

Hparams read(const std::string& more) {
  ModelFiles files;
  files.config = as_object(parse_json(R"({"model_type": "x", "hidden_size": 64)" + more + "}", "config"), "config");
  const Config config(files);
  Hparams hp;
  hp.layers = 4;
  hp.ffn = 100;
  read_experts(hp, config);
  return hp;
}

std::string refused(const std::string& more) {
  try {
    read(more);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ExpertParams, SpellingsOfConfigs) {
  ExpertParams e = read(R"(, "num_local_experts": 8, "num_experts_per_tok": 2)").experts;
  EXPECT_EQ(e.count, 8);
  EXPECT_EQ(e.used, 2);
  EXPECT_EQ(e.ffn, 100);
  EXPECT_EQ(e.shared_ffn, 0);
  EXPECT_EQ(e.layers, std::vector<bool>(4, true));
  e = read(R"(, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 2,
              "first_k_dense_replace": 1, "scoring_func": "sigmoid", "norm_topk_prob": true, "n_group": 4,
              "topk_group": 2, "routed_scaling_factor": 2.5)")
          .experts;
  EXPECT_EQ(e.shared_ffn, 48);
  EXPECT_EQ(e.layers, (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(e.router.score, RouterScore::kSigmoid);
  EXPECT_TRUE(e.router.renormalize);
  EXPECT_EQ(e.router.groups, 4);
  EXPECT_EQ(e.router.groups_used, 2);
  EXPECT_EQ(e.router.scale, 2.5f);
  e = read(R"(, "num_experts": 4, "moe_topk": [2, 2, 2, 2], "moe_intermediate_size": [24, 24, 24, 24])").experts;
  EXPECT_EQ(e.used, 2);
  EXPECT_EQ(e.ffn, 24);
  e = read(R"(, "num_experts": 4, "num_experts_per_tok": 1, "decoder_sparse_step": 2, "mlp_only_layers": [3])").experts;
  EXPECT_EQ(e.layers, (std::vector<bool>{false, true, false, false}));
}

TEST(ExpertParams, LayersNamedOneByOne) {
  const std::string some = R"(, "num_experts": 4, "num_experts_per_tok": 1)";
  const std::vector<bool> want{false, true, false, true};
  EXPECT_EQ(read(some + R"(, "moe_layer_freq": [0, 1, 0, 1])").experts.layers, want);
  EXPECT_EQ(read(some + R"(, "mlp_layer_types": ["dense", "sparse", "dense", "sparse"])").experts.layers, want);
  EXPECT_EQ(refused(some + R"(, "moe_layer_freq": [0, 1])"), "[config] moe_layer_freq has 2 entries for 4 layers");
  EXPECT_EQ(refused(some + R"(, "mlp_layer_types": ["dense"])"), "[config] mlp_layer_types has 1 entries for 4 layers");
}

TEST(ExpertParams, ContradictionsAreRefused) {
  EXPECT_EQ(refused(R"(, "num_experts": 4, "num_experts_per_tok": 5)"), "[config] a row asks for 5 of 4 experts");
  EXPECT_EQ(refused(R"(, "num_experts": 4, "num_experts_per_tok": 0)"), "[config] a row asks for 0 of 4 experts");
  EXPECT_EQ(refused(R"(, "num_experts": 4)"), "[config] 'num_experts_per_tok' is missing");
  EXPECT_EQ(refused(R"(, "num_experts": 6, "num_experts_per_tok": 1, "n_group": 4)"),
            "[config] 6 experts cannot be divided into 4 groups");
  EXPECT_EQ(refused(R"(, "num_experts": 8, "num_experts_per_tok": 1, "n_group": 4, "topk_group": 5)"),
            "[config] a row asks for 5 of 4 groups of experts");
  EXPECT_EQ(refused(R"(, "num_experts": 8, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 1)"),
            "[config] a row asks for 3 experts of 1 groups that have 2 each");
  EXPECT_EQ(refused(R"(, "num_experts": 2048, "num_experts_per_tok": 3)"),
            "[config] 3 of 2048 experts, at most 64 of 1024 are supported");
  EXPECT_EQ(refused(R"(, "num_experts": 8, "num_experts_per_tok": [1, 2])"),
            "[config] 'num_experts_per_tok' differs from layer to layer, which is not supported");
  EXPECT_EQ(refused(R"(, "num_experts": 8, "num_experts_per_tok": 1, "scoring_func": "tanh")"),
            "[config] the router's function 'tanh' is not supported");
}

}  // namespace
}  // namespace ingot
