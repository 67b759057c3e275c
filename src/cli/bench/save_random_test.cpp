#include "cli/bench/save_random.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "cli/bench/shapes.h"
#include "compress/scoring.h"
#include "engine/engine.h"

namespace ingot {
namespace {

std::vector<float> last_logits(Model& model) {
  Engine engine(model, {.threads = 1});
  std::vector<float> last;
  for_each_logits(engine, {1, 7, 3, 200}, 3, [&](int, std::span<const float> l) { last.assign(l.begin(), l.end()); });
  return last;
}

// A saved random model is the model that was in memory, down to the last bit: names, permuted rows and formats agree.
TEST(SaveRandom, LoadsAsTheSameModel) {
  const std::string path = testing::TempDir() + "ingot_save_random_" + std::to_string(getpid()) + ".gguf";
  for (const char* shape : {"tiny", "moe-tiny"}) {
    for (const char* format : {"f32", "q8_0", "q4_0", "bf16"}) {
      const Hparams hp = shape_by_name(shape);
      Model made = Model::random(hp, formats_by_name(format, hp), {});
      save_random(made, path);
      Model loaded = Model::load(path, {});
      EXPECT_EQ(last_logits(made), last_logits(loaded)) << shape << " " << format;
    }
  }
  std::filesystem::remove(path);
}

TEST(SaveRandom, RefusesFormatsThatGgufDoesNotHave) {
  const std::string path = testing::TempDir() + "ingot_save_random_" + std::to_string(getpid()) + "_own.gguf";
  for (const char* format : {"int4", "int4_asym", "int8"}) {
    const Hparams hp = shape_by_name("tiny");
    Model made = Model::random(hp, formats_by_name(format, hp), {});
    EXPECT_FALSE(last_logits(made).empty()) << format;
    EXPECT_THROW(save_random(made, path), Error) << format;
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Shapes, MixtureGivesTheHeadMoreBits) {
  const Hparams hp = shape_by_name("llama-3.1-8b");
  const FormatChoice choice = formats_by_name("q4_k_m", hp);
  EXPECT_EQ(choice("lm_head.weight"), Format::kQ6_K);
  EXPECT_EQ(choice("model.layers.0.self_attn.v_proj.weight"), Format::kQ6_K);
  EXPECT_EQ(choice("model.layers.5.self_attn.v_proj.weight"), Format::kQ4_K);
  EXPECT_EQ(choice("model.layers.0.self_attn.q_proj.weight"), Format::kQ4_K);
  EXPECT_THROW(formats_by_name("q9", hp), std::exception);
  EXPECT_THROW(shape_by_name("nonsense"), std::exception);
}

}  // namespace
}  // namespace ingot
