#include "weights/hparams.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "weights/config.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

// A config.json under test, beside no weights.
Hparams read(const std::string& json) {
  ModelFiles files;
  files.path = "test";
  const Json value = parse_json(json, "config.json");
  files.config = value.as_object();
  // An empty file of weights: has_tensor() answers no.
  static const std::string kEmpty = std::string("\x02\0\0\0\0\0\0\0{}", 10);
  files.safetensors = std::make_unique<SafeTensors>(
      SafeTensors::parse(std::as_bytes(std::span(kEmpty.data(), kEmpty.size())), "empty"));
  return read_hparams(Config(files));
}

const char* const kCommon =
    R"("model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
       "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 512)";

std::string config(const std::string& more) { return "{" + std::string(kCommon) + more + "}"; }

TEST(Hparams, Defaults) {
  const Hparams hp = read(config(""));
  EXPECT_EQ(hp.kv_heads, 4);
  EXPECT_EQ(hp.head_dim, 16);
  EXPECT_EQ(hp.rope.theta, 10000);
  EXPECT_EQ(hp.rope.kind, RopeKind::kDefault);
  EXPECT_TRUE(hp.tied);  // neither said nor stored
  EXPECT_FLOAT_EQ(hp.attention_scale, 0.25f);
}

TEST(Hparams, OlderAndNewerFormsOfRope) {
  const Hparams older = read(config(R"(, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4})"));
  EXPECT_EQ(older.rope.theta, 5e5);
  EXPECT_EQ(older.rope.kind, RopeKind::kLinear);
  EXPECT_EQ(older.rope.factor, 4);
  const Hparams newer = read(config(R"(, "rope_parameters": {"rope_type": "yarn", "factor": 2, "rope_theta": 1e6,
      "original_max_position_embeddings": 256})"));
  EXPECT_EQ(newer.rope.kind, RopeKind::kYarn);
  EXPECT_EQ(newer.rope.original_context, 256);
  const Hparams two =
      read(config(R"(, "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
      "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})"));
  EXPECT_EQ(two.rope.theta, 1e6);
  EXPECT_EQ(two.rope_local.theta, 1e4);
}

TEST(Hparams, AbsurdValuesAreRefusedByName) {
  const auto message = [](const std::string& json) -> std::string {
    try {
      read(json);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(config(R"(, "num_key_value_heads": 3)")).find("KV heads"), std::string::npos);
  EXPECT_NE(message(config(R"(, "head_dim": -1)")).find("head_dim"), std::string::npos);
  EXPECT_NE(message(config(R"(, "head_dim": 15)")).find("rope"), std::string::npos);
  EXPECT_NE(message(config(R"(, "hidden_act": "mish")")).find("mish"), std::string::npos);
  EXPECT_NE(message(config(R"(, "rope_scaling": {"type": "weird"})")).find("weird"), std::string::npos);
  EXPECT_NE(message(config(R"(, "rope_theta": 0)")).find("theta"), std::string::npos);
  EXPECT_NE(message(config(R"(, "num_key_value_heads": "two")")).find("num_key_value_heads"), std::string::npos);
  EXPECT_NE(message(R"({"model_type": "llama"})").find("num_hidden_layers"), std::string::npos);
  EXPECT_NE(message(config(R"(, "quantization_config": {"quant_method": "hqq"})")).find("hqq"), std::string::npos);
  EXPECT_NE(message("{}").find("model_type"), std::string::npos);
}

TEST(ModelFiles, SaysWhatIsWrong) {
  const fs::path dir = fs::path(testing::TempDir()) / "ingot_model_files_test";
  fs::create_directories(dir / "empty_dir");
  std::ofstream(dir / "empty.gguf").close();
  std::ofstream(dir / "text.txt") << "This is not a model.";
  const auto message = [&](const char* name) -> std::string {
    try {
      ModelFiles::open((dir / name).string());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("missing").find("does not exist"), std::string::npos);
  EXPECT_NE(message("empty.gguf").find("is empty"), std::string::npos);
  EXPECT_NE(message("text.txt").find("is not a model"), std::string::npos);
  EXPECT_NE(message("empty_dir").find("config.json"), std::string::npos);
  fs::remove_all(dir);
}

}  // namespace
}  // namespace ingot
