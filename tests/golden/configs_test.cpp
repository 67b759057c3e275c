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

}  // namespace
}  // namespace ingot
