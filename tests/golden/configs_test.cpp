// What published configs say that the small checkpoints do not.
#include <gtest/gtest.h>

#include <cmath>

#include "base/data_test_support.h"
#include "base/error.h"
#include "files/json.h"
#include "models/model.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

// The numbers of a small checkpoint whose config has other members in place of its own.
Hparams numbers_of(const std::string& checkpoint, const JsonObject& others) {
  ModelFiles files = ModelFiles::open(test_data("arch/" + checkpoint));
  for (const auto& member : others) files.config[member.key()] = member.value();
  return Model::read_numbers(files);
}

TEST(PublishedConfigs, HunyuansAlphaIsABaseOfItsOwn) {
  const Hparams plain = numbers_of("hunyuan-moe", {{"rope_parameters", nullptr}, {"rope_theta", 10000.0}});
  const Hparams scaled = numbers_of("hunyuan-moe", {{"rope_parameters", nullptr},
                                                    {"rope_theta", 10000.0},
                                                    {"rope_scaling", {{"type", "dynamic"}, {"alpha", 1000.0}}}});
  const double d = plain.head_dim;
  EXPECT_EQ(scaled.rope.kind, RopeKind::kDefault);
  EXPECT_NEAR(scaled.rope.theta, 10000 * std::pow(1000, d / (d - 2)), 1);
}

TEST(PublishedConfigs, PhisMagnitudeIsTheConfigs) {
  const JsonArray factors(static_cast<size_t>(numbers_of("phimoe", {}).head_dim / 2), Json(1.0));
  const auto with = [&](double near, double far) {
    return JsonObject{{"rope_parameters", nullptr},
                      {"original_max_position_embeddings", 32},
                      {"rope_scaling",
                       {{"type", "longrope"},
                        {"short_factor", factors},
                        {"long_factor", factors},
                        {"short_mscale", near},
                        {"long_mscale", far}}}};
  };
  EXPECT_EQ(numbers_of("phimoe", with(1.243163121016122, 1.243163121016122)).rope.attention_factor, 1.243163121016122);
  EXPECT_THROW(numbers_of("phimoe", with(1.0, 1.2)), Error);
}

TEST(PublishedConfigs, DotsNamesItsRouterByItsChoice) {
  EXPECT_EQ(numbers_of("dots1", {{"scoring_func", "noaux_tc"}}).experts.router.score, RouterScore::kSigmoid);
  EXPECT_THROW(numbers_of("dots1", {{"scoring_func", "other"}}), Error);
}

TEST(PublishedConfigs, MimosOlderSpellingSaysTheSame) {
  const Hparams plain = numbers_of("mimo-v2-flash", {});
  const Hparams older = numbers_of("mimo-v2-flash", {{"layer_types", nullptr},
                                                     {"mlp_layer_types", nullptr},
                                                     {"hybrid_layer_pattern", JsonArray{0, 1}},
                                                     {"moe_layer_freq", JsonArray{0, 1}},
                                                     {"rope_parameters", nullptr},
                                                     {"partial_rotary_factor", 0.334},
                                                     {"rope_theta", 5000000.0},
                                                     {"swa_rope_theta", 10000.0},
                                                     {"swa_num_key_value_heads", 4},
                                                     {"rms_norm_eps", nullptr},
                                                     {"layernorm_epsilon", 1e-5},
                                                     {"n_shared_experts", nullptr},
                                                     {"routed_scaling_factor", nullptr},
                                                     {"scoring_func", "sigmoid"}});
  EXPECT_EQ(plain.sliding, (std::vector<bool>{false, true}));
  EXPECT_EQ(older.sliding, plain.sliding);
  EXPECT_EQ(older.experts.layers, plain.experts.layers);
  EXPECT_EQ(older.rope.theta, plain.rope.theta);
  EXPECT_EQ(older.rope_local.theta, plain.rope_local.theta);
  EXPECT_EQ(older.rope.rotary_dim(), 8);
  EXPECT_EQ(older.kv_heads_of(0), 2);
  EXPECT_EQ(older.kv_heads_of(1), 4);
  EXPECT_EQ(plain.kv_heads_of(1), 4);
  EXPECT_EQ(older.eps, plain.eps);
  EXPECT_EQ(older.experts.router.scale, 1);
  EXPECT_THROW(numbers_of("mimo-v2-flash", {{"swa_num_key_value_heads", 3}}), Error);
}

TEST(PublishedConfigs, LlamasLayersFollowFromTheirPeriods) {
  const Hparams named = numbers_of("llama4", {});
  const Hparams hp = numbers_of("llama4", {{"no_rope_layers", JsonArray{}},
                                           {"layer_types", nullptr},
                                           {"moe_layers", nullptr},
                                           {"attn_temperature_tuning", 4}});
  EXPECT_EQ(hp.uses_rope, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(hp.uses_rope, named.uses_rope);
  EXPECT_EQ(hp.sliding, named.sliding);
  EXPECT_EQ(hp.experts.layers, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(hp.temperature_period, 8);
  EXPECT_EQ(numbers_of("llama4", {{"attn_temperature_tuning", false}}).temperature_period, 0);
  EXPECT_THROW(numbers_of("llama4", {{"no_rope_layers", JsonArray{1, 0}}}), Error);
}

TEST(PublishedConfigs, GranitesWithAttentionAlone) {
  EXPECT_EQ(numbers_of("granitemoe", {{"model_type", "granitemoe"}, {"shared_intermediate_size", nullptr}})
                .experts.shared_ffn,
            0);
  const JsonObject four{{"model_type", "granitemoehybrid"}, {"layer_types", JsonArray{"attention", "attention"}}};
  EXPECT_EQ(numbers_of("granitemoe", four).uses_rope, (std::vector<bool>{false, false}));
  JsonObject dense = four;
  dense["position_embedding_type"] = "rope";
  dense["num_local_experts"] = 0;
  const Hparams hp = numbers_of("granitemoe", dense);
  EXPECT_EQ(hp.uses_rope, (std::vector<bool>{true, true}));
  EXPECT_FALSE(hp.experts.in_layer(0));
  EXPECT_EQ(hp.experts.shared_ffn, 24);
  JsonObject state = four;
  state["layer_types"] = JsonArray{"mamba", "attention"};
  EXPECT_THROW(numbers_of("granitemoe", state), Error);
}

}  // namespace
}  // namespace ingot
