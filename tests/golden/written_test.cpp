// Checkpoints written as GGUF by `quantize`, then loaded and held against the reference implementation and against the
// files that llama.cpp's converter makes of them; those that GGUF has no place for are refused by name.
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "compress/quantize.h"
#include "files/gguf/gguf.h"
#include "golden/support.h"

namespace ingot {
namespace {

// The checkpoints of which GGUF can say everything.
const std::vector<std::string>& written_names() {
  static const std::vector<std::string> names = {
      "llama", "llama-tied-bias", "qwen2",   "qwen3",         "gemma2",        "gemma3",      "phi3",
      "olmo2", "granite",         "glm4",    "gpt2",          "mixtral",       "qwen2-moe",   "qwen3-moe",
      "olmoe", "granitemoe",      "gpt-oss", "gpt-oss-mxfp4", "glm4-moe",      "deepseek-v2", "deepseek-v3",
      "dots1", "minimax-m2",      "phimoe",  "ernie4.5-moe",  "mimo-v2-flash", "hunyuan-moe"};
  return names;
}

// A path of this process, and nothing there.
std::string scratch(const std::string& name) {
  const std::string path = fmt::format("{}ingot_written_{}_{}", testing::TempDir(), getpid(), name);
  std::filesystem::remove_all(path);
  return path;
}

QuantizeSummary write_gguf(const std::string& model, const std::string& out, const std::string& format) {
  QuantizeOptions options;
  options.model = model;
  options.out = out;
  options.format = format;
  return quantize(options, *nearest_rounder());
}

std::vector<std::vector<float>> answers(const std::string& model, const std::vector<int32_t>& tokens) {
  TestEngine test(model, {.threads = 2});
  return all_logits(*test.engine, tokens);
}

JsonObject expected_of(const std::string& folder) {
  return as_object(read_json_file(folder + "/expected.json"), "expected");
}

class Written : public testing::TestWithParam<std::string> {};

TEST_P(Written, AnswersAsTheCheckpoint) {
  const std::string folder = arch_directory(GetParam());
  const std::string path = scratch(GetParam() + ".gguf");
  const bool must = std::ranges::count(written_names(), GetParam()) > 0;
  QuantizeSummary summary;
  try {
    summary = write_gguf(folder, path, "f32");
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("[quantize]")) << error.what();
    EXPECT_FALSE(must) << error.what();
    EXPECT_FALSE(std::filesystem::exists(path));
    return;
  }
  // What the file cannot say was told, and the answers differ.
  if (!summary.notes.empty()) {
    EXPECT_FALSE(must) << summary.notes[0];
    std::filesystem::remove(path);
    return;
  }
  const JsonObject expected = expected_of(folder);
  const auto rows = answers(path, int_list(expected, "token_ids"));
  const std::vector<int32_t> argmax = int_list(expected, "argmax");
  ASSERT_EQ(rows.size(), argmax.size());
  EXPECT_EQ(arg_max(rows.back()), argmax.back());
  EXPECT_LT(nmse(rows.back(), float_list(*find_array(expected, "logits_last"))), 1e-6);
  std::filesystem::remove(path);
}

std::vector<std::string> names() { return arch_names(); }

INSTANTIATE_TEST_SUITE_P(Arch, Written, testing::ValuesIn(names()),
                         [](const auto& one) { return test_name(one.param); });

// In fewer bits the answers stay near: no tensor lies in another's place or order.
TEST(WrittenOf, TheseAreWritten) {
  for (const std::string& name : written_names()) {
    const std::string folder = arch_directory(name);
    const JsonObject expected = expected_of(folder);
    for (const auto& [format, most] : {std::pair{"bf16", 1e-3}, {"q8_0", 1e-2}}) {
      // What is in fewer bits already is not rounded again.
      if (name == "gpt-oss-mxfp4" && std::string_view(format) == "q8_0") continue;
      const std::string path = scratch("of.gguf");
      EXPECT_TRUE(write_gguf(folder, path, format).notes.empty()) << name;
      const auto rows = answers(path, int_list(expected, "token_ids"));
      EXPECT_LT(nmse(rows.back(), float_list(*find_array(expected, "logits_last"))), most) << name << " as " << format;
      std::filesystem::remove(path);
    }
  }
}

// Blocks of MXFP4 go into the file as they are, beside what is rounded.
TEST(WrittenOf, BlocksOfExpertsStayAsTheyAre) {
  const std::string folder = arch_directory("gpt-oss-mxfp4"), path = scratch("blocks.gguf");
  QuantizeOptions options;
  options.model = folder;
  options.out = path;
  options.format = "f32";
  options.tensors = {{"*_exps.weight", "mxfp4"}};
  quantize(options, *nearest_rounder());
  const JsonObject expected = expected_of(folder);
  EXPECT_EQ(Gguf::open(path).find_tensor("blk.0.ffn_up_exps.weight")->type, 39u);
  const auto rows = answers(path, int_list(expected, "token_ids"));
  EXPECT_LT(nmse(rows.back(), float_list(*find_array(expected, "logits_last"))), 1e-6);
  std::filesystem::remove(path);
}

// A copy of a checkpoint with another config.
std::string changed_copy(const std::string& name, const std::function<void(JsonObject&)>& change) {
  const std::string from = arch_directory(name), to = scratch(name);
  std::filesystem::create_directory(to);
  std::filesystem::copy_file(from + "/model.safetensors", to + "/model.safetensors");
  JsonObject config = as_object(read_json_file(from + "/config.json"), "config");
  change(config);
  std::ofstream(to + "/config.json") << to_json(Json(std::move(config)));
  return to;
}

// What GGUF takes for granted of an architecture, the small checkpoints have otherwise: they are refused, and a
// checkpoint as the published models are is written.
struct Granted {
  std::string name;
  const char* format;   // the checkpoint's own
  std::string refused;  // part of the error
  std::function<void(JsonObject&)> publish;
};

TEST(WrittenOf, WhatGgufTakesForGrantedIsChecked) {
  const std::vector<Granted> all = {
      {"afmoe", "f32", "which layers have rope",
       [](JsonObject& config) {
         config["layer_types"] = Json(JsonArray{"sliding_attention", "sliding_attention"});
       }},
      {"llama4", "bf16", "how queries grow with the position",
       [](JsonObject& config) {
         config["attention_chunk_size"] = Json(int64_t{8192});
         config["floor_scale"] = Json(int64_t{8192});
       }},
      {"minicpm3", "f32", "the scales of embedding, residual and logits",
       [](JsonObject& config) { config["dim_model_base"] = Json(int64_t{256}); }}};
  for (const Granted& one : all) {
    const std::string path = scratch("granted.gguf");
    try {
      write_gguf(arch_directory(one.name), path, one.format);
      ADD_FAILURE() << one.name << " was written";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(one.refused), std::string::npos) << error.what();
    }
    const std::string published = changed_copy(one.name, one.publish);
    EXPECT_TRUE(write_gguf(published, path, one.format).notes.empty()) << one.name;
    const std::vector<int32_t> tokens = int_list(expected_of(arch_directory(one.name)), "token_ids");
    const auto want = answers(published, tokens), got = answers(path, tokens);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(nmse(got[i], want[i]), 1e-6) << one.name << " at " << i;
    std::filesystem::remove(path);
    std::filesystem::remove_all(published);
  }
}

std::string refusal(const std::string& model) {
  const std::string path = scratch("refused.gguf");
  try {
    write_gguf(model, path, "f32");
  } catch (const Error& error) {
    EXPECT_FALSE(std::filesystem::exists(path));
    return error.what();
  }
  std::filesystem::remove(path);
  return "";
}

void stretch(JsonObject& config, double mscale, double beta_fast) {
  config["rope_parameters"] = Json{{"rope_type", "yarn"},    {"rope_theta", 10000.0},
                                   {"factor", 4.0},          {"original_max_position_embeddings", 4096},
                                   {"mscale", mscale},       {"mscale_all_dim", 0.707},
                                   {"beta_fast", beta_fast}, {"beta_slow", 1.0}};
}

// DeepSeek's yarn makes scores sharper by a number that GGUF has a tenth of; its other numbers are fixed there.
TEST(WrittenOf, YarnOfLatentAttention) {
  const std::string model = changed_copy("deepseek-v3", [](JsonObject& config) { stretch(config, 0.707, 32); });
  const std::string path = scratch("yarn.gguf");
  write_gguf(model, path, "f32");
  EXPECT_NEAR(Gguf::open(path).get_f32("deepseek2.rope.scaling.yarn_log_multiplier"), 0.0707, 1e-6);
  const std::vector<int32_t> tokens = int_list(expected_of(arch_directory("deepseek-v3")), "token_ids");
  EXPECT_LT(nmse(answers(path, tokens).back(), answers(model, tokens).back()), 1e-6);
  std::filesystem::remove(path);
  std::filesystem::remove_all(model);
  for (const auto& [mscale, beta] : {std::pair{1.0, 32.0}, {0.707, 2.0}}) {
    const std::string other = changed_copy("deepseek-v3", [&](JsonObject& config) { stretch(config, mscale, beta); });
    EXPECT_NE(refusal(other).find("the rope"), std::string::npos) << mscale << ", " << beta;
    std::filesystem::remove_all(other);
  }
}

// Layers that guess further tokens lie behind the last: the file is the model without them.
TEST(WrittenOf, LayersBehindTheLastAreLeftOut) {
  const std::string model = changed_copy("deepseek-v3", [](JsonObject& config) { config["num_hidden_layers"] = 1; });
  const std::string path = scratch("later.gguf");
  const QuantizeSummary summary = write_gguf(model, path, "f32");
  ASSERT_EQ(summary.notes.size(), 1u);
  EXPECT_EQ(summary.notes[0], "layers behind the last, which guess further tokens, are left out");
  const std::vector<int32_t> tokens = int_list(expected_of(arch_directory("deepseek-v3")), "token_ids");
  EXPECT_LT(nmse(answers(path, tokens).back(), answers(model, tokens).back()), 1e-6);
  std::filesystem::remove(path);
  std::filesystem::remove_all(model);
}

TEST(WrittenOf, WhatHasNoKeyIsRefusedByName) {
  const std::string layers = changed_copy("ernie4.5-moe", [](JsonObject& config) {
    config["moe_layer_start_index"] = 0;
    config["moe_layer_end_index"] = 0;
  });
  EXPECT_NE(refusal(layers).find("'ernie4_5-moe' cannot say which layers have experts"), std::string::npos);
  std::filesystem::remove_all(layers);
  const std::string hybrid = changed_copy("granitemoe", [](JsonObject& config) {
    config["model_type"] = "granitemoehybrid";
    config["layer_types"] = Json(JsonArray{"attention", "attention"});
  });
  EXPECT_NE(refusal(hybrid).find("'granitemoehybrid' cannot be written as GGUF"), std::string::npos);
  std::filesystem::remove_all(hybrid);
}

// The checkpoints of which llama.cpp's converter made a file that is here.
std::vector<std::string> converted() {
  std::vector<std::string> names = test_data_names("arch-gguf");
  std::erase_if(names, [](const std::string& name) { return std::ranges::count(written_names(), name) == 0; });
  return names;
}

// Keys that say what readers take for granted where they are absent.
bool says_nothing(const std::string& key, const GgufValue& value) {
  const bool group = key.ends_with(".expert_group_count") || key.ends_with(".expert_group_used_count");
  if (!group && !key.ends_with(".nextn_predict_layers")) return false;
  return visit_number(value, 0, [](auto v) { return static_cast<int>(v); }) == (group ? 1 : 0);
}

class Twin : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Twin);

// Names, types, shapes, values, and all keys of the architecture.
TEST_P(Twin, IsTheFileOfTheConverter) {
  const std::string path = scratch(GetParam() + ".twin.gguf");
  const Gguf want = Gguf::open(test_data("arch-gguf/" + GetParam() + "/model.gguf"));
  write_gguf(arch_directory(GetParam()), path, want.get_u64("general.file_type", 0) == 0 ? "f32" : "bf16");
  const Gguf got = Gguf::open(path);
  EXPECT_EQ(got.tensors().size(), want.tensors().size());
  for (const GgufTensor& tensor : want.tensors()) {
    const GgufTensor* written = got.find_tensor(tensor.name);
    ASSERT_NE(written, nullptr) << tensor.name;
    EXPECT_EQ(written->type, tensor.type) << tensor.name;
    ASSERT_EQ(written->dims, tensor.dims) << tensor.name;
    ASSERT_EQ(written->bytes, tensor.bytes) << tensor.name;
    EXPECT_EQ(std::memcmp(written->data, tensor.data, tensor.bytes), 0) << tensor.name;
  }
  const std::string arch = want.get_string("general.architecture");
  EXPECT_EQ(got.get_string("general.architecture"), arch);
  for (const GgufEntry& entry : want.metadata()) {
    if (!std::string_view(entry.key).starts_with(arch + ".") || says_nothing(std::string(entry.key), entry.value))
      continue;
    const GgufValue* written = got.find(std::string(entry.key));
    ASSERT_NE(written, nullptr) << entry.key;
    EXPECT_EQ(written->kind, entry.value.kind) << entry.key;
    if (entry.value.kind == GgufKind::kString) {
      EXPECT_EQ(got.get_string(std::string(entry.key)), want.get_string(std::string(entry.key)));
    } else {
      const auto number = [](const GgufValue& v) { return visit_number(v, 0, [](auto n) { return double(n); }); };
      EXPECT_EQ(number(*written), number(entry.value)) << entry.key;
    }
  }
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Arch, Twin, testing::ValuesIn(converted()),
                         [](const auto& one) { return test_name(one.param); });

}  // namespace
}  // namespace ingot
