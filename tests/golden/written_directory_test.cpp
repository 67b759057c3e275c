// GGUF files written as directories by `quantize`: the published checkpoints come back, names, shapes, values and
// numbers, whether our own writer or llama.cpp's converter made the file.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "compress/quantize.h"
#include "files/gguf/gguf.h"
#include "golden/support.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

// A path of this process, and nothing there.
std::string scratch(const std::string& name) {
  const std::string path = fmt::format("{}ingot_directory_{}_{}", testing::TempDir(), getpid(), name);
  fs::remove_all(path);
  return path;
}

void write(const std::string& model, const std::string& out, const std::string& format,
           const std::vector<std::pair<std::string, std::string>>& tensors = {}) {
  QuantizeOptions options;
  options.tensors = tensors;
  options.model = model;
  options.out = out;
  options.format = format;
  quantize(options, *nearest_rounder());
}

std::vector<std::vector<float>> answers(const std::string& model, const std::vector<int32_t>& tokens) {
  TestEngine test(model, {.threads = 2});
  return all_logits(*test.engine, tokens);
}

std::vector<int32_t> tokens_of(const std::string& name) {
  const Json expected = read_json_file(arch_directory(name) + "/expected.json");
  return int_list(as_object(expected, "expected"), "token_ids");
}

std::string stored_format(const std::string& directory) {
  const ModelFiles files = ModelFiles::open(directory);
  return files.safetensors->tensors()[0].dtype == "BF16" ? "bf16" : "f32";
}

// Norms come back from 1 + w in float32: a bit of 1 may be missing.
void expect_values(const SafeTensor& got, const SafeTensor& want, bool norms_had_one) {
  ASSERT_EQ(got.bytes, want.bytes) << want.name;
  if (!norms_had_one || !want.name.ends_with("norm.weight")) {
    EXPECT_EQ(std::memcmp(got.data, want.data, want.bytes), 0) << want.name;
    return;
  }
  for (size_t i = 0; i < want.bytes / sizeof(float); ++i) {
    float a = 0, b = 0;
    std::memcpy(&a, got.data + i * sizeof(float), sizeof(float));
    std::memcpy(&b, want.data + i * sizeof(float), sizeof(float));
    EXPECT_NEAR(a, b, 1.2e-7) << want.name << " " << i;
  }
}

void expect_tensors(const std::string& made, const std::string& published) {
  const ModelFiles got = ModelFiles::open(made), want = ModelFiles::open(published);
  EXPECT_EQ(got.safetensors->tensors().size(), want.safetensors->tensors().size());
  const bool gemma = get_string(want.config, "model_type").starts_with("gemma");
  for (const SafeTensor& tensor : want.safetensors->tensors()) {
    const SafeTensor* mine = got.safetensors->find(tensor.name);
    ASSERT_NE(mine, nullptr) << tensor.name;
    EXPECT_EQ(mine->dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(mine->shape, tensor.shape) << tensor.name;
    expect_values(*mine, tensor, gemma);
  }
}

// Numbers that stand in both have one value. What may differ: max_window_layers, which says nothing without windows.
void expect_config(const std::string& made, const std::string& published) {
  const JsonObject got = ModelFiles::open(made).config, want = ModelFiles::open(published).config;
  for (const char* key :
       {"architectures", "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size",
        "num_attention_heads", "num_key_value_heads", "tie_word_embeddings", "max_position_embeddings", "rms_norm_eps"})
    EXPECT_NE(find(got, key), nullptr) << key;
  for (const auto& member : want) {
    const std::string key(member.key());
    const Json* mine = find(got, key);
    if (mine == nullptr || key == "max_window_layers") continue;
    EXPECT_EQ(to_json(*mine), to_json(member.value())) << key;
  }
  const JsonObject* rope = find_object(want, "rope_parameters");
  if (rope != nullptr && find(*rope, "full_attention") == nullptr) {
    EXPECT_EQ(get_float(got, "rope_theta"), get_float(*rope, "rope_theta"));
  }
}

void expect_same_answers(const std::string& directory, const std::string& file, const std::vector<int32_t>& tokens) {
  const auto got = answers(directory, tokens), want = answers(file, tokens);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(nmse(got[i], want[i]), 1e-10) << "at " << i;
}

class WrittenDirectory : public testing::TestWithParam<std::string> {};

TEST_P(WrittenDirectory, IsTheCheckpointAgain) {
  const std::string published = arch_directory(GetParam()), format = stored_format(published);
  const std::string file = scratch(GetParam() + ".gguf"), made = scratch(GetParam());
  write(published, file, format);
  write(file, made, format);
  expect_tensors(made, published);
  expect_config(made, published);
  expect_same_answers(made, file, tokens_of(GetParam()));
  fs::remove(file);
  fs::remove_all(made);
}

INSTANTIATE_TEST_SUITE_P(Arch, WrittenDirectory,
                         testing::Values("llama", "llama-tied-bias", "qwen2", "qwen3", "gemma2", "gemma3", "phi3",
                                         "olmo2", "granite", "glm4", "mixtral", "qwen3-moe", "olmoe"),
                         [](const auto& one) { return test_name(one.param); });

// The files that llama.cpp's converter made of checkpoints.
class TwinDirectory : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TwinDirectory);

TEST_P(TwinDirectory, IsTheCheckpointAgain) {
  const std::string file = test_data("arch-gguf/" + GetParam() + "/model.gguf"), made = scratch(GetParam());
  const std::string published = test_data("arch/" + GetParam());
  write(file, made, stored_format(published));
  expect_tensors(made, published);
  expect_same_answers(made, file, tokens_of(GetParam()));
  fs::remove_all(made);
}

std::vector<std::string> twins() {
  std::vector<std::string> names = test_data_names("arch-gguf");
  std::erase_if(names, [](const std::string& name) { return name != "mixtral" && name != "qwen3-moe"; });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Arch, TwinDirectory, testing::ValuesIn(twins()),
                         [](const auto& one) { return test_name(one.param); });

// A copy of a checkpoint with another config, as a file and as a directory made of that.
struct Changed {
  std::string published, file, made;

  Changed(const std::string& name, const std::function<void(JsonObject&)>& change)
      : published(scratch("changed")), file(scratch("changed.gguf")), made(scratch("made")) {
    const std::string from = arch_directory(name);
    fs::create_directory(published);
    fs::copy_file(from + "/model.safetensors", published + "/model.safetensors");
    JsonObject config = as_object(read_json_file(from + "/config.json"), "config");
    change(config);
    std::ofstream(published + "/config.json") << to_json(Json(std::move(config)));
    write(published, file, "f32");
    write(file, made, "f32");
  }
  ~Changed() {
    fs::remove(file);
    fs::remove_all(published);
    fs::remove_all(made);
  }
};

JsonArray factors(double first) {
  JsonArray list;
  for (int i = 0; i < 8; ++i) list.push_back(Json(first + 0.25 * i));
  return list;
}

// What small checkpoints have otherwise: scalings of rope, layers without rope.
TEST(WrittenDirectoryOf, RopeIsSaid) {
  const std::vector<std::tuple<std::string, std::string, JsonObject>> all = {
      {"qwen2", "linear", {{"rope_type", "linear"}, {"factor", 2.5}}},
      {"qwen3", "yarn", {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}}},
      {"llama",
       "llama3",
       {{"rope_type", "llama3"},
        {"factor", 32.0},
        {"low_freq_factor", 1.0},
        {"high_freq_factor", 4.0},
        {"original_max_position_embeddings", 64}}},
      {"phi3",
       "longrope",
       {{"rope_type", "longrope"},
        {"short_factor", factors(1)},
        {"long_factor", factors(2)},
        {"original_max_position_embeddings", 64}}}};
  for (const auto& [name, kind, scaling] : all) {
    const Changed changed(name, [&](JsonObject& config) {
      JsonObject rope = scaling;
      rope["rope_theta"] = 10000.0;
      config["rope_parameters"] = rope;
      if (kind == "longrope") config["original_max_position_embeddings"] = 64;
    });
    const JsonObject config = ModelFiles::open(changed.made).config;
    const JsonObject& got = *find_object(config, "rope_scaling");
    EXPECT_EQ(get_string(got, kind == "longrope" ? "type" : "rope_type"), kind);
    for (const char* key : {"factor", "original_max_position_embeddings", "short_factor", "long_factor"}) {
      const Json* want = find(scaling, key);
      const Json* mine = find(got, key) != nullptr ? find(got, key) : find(config, key);
      if (want == nullptr) continue;
      ASSERT_NE(mine, nullptr) << kind << " " << key;
      EXPECT_EQ(to_json(*mine), to_json(*want)) << kind << " " << key;
    }
    expect_same_answers(changed.made, changed.published, tokens_of(name));
  }
}

TEST(WrittenDirectoryOf, LayersWithoutRope) {
  const Changed changed("smollm3", [](JsonObject& config) {
    config["no_rope_layers"] = JsonArray{1, 1};
    config["no_rope_layer_interval"] = 4;
  });
  expect_tensors(changed.made, changed.published);
  expect_config(changed.made, changed.published);
  expect_same_answers(changed.made, changed.published, tokens_of("smollm3"));
}

// Of an expert the formats of compressed directories hold a matrix each.
// Modules that keep their type, by name.
std::vector<std::string> ignored(const std::string& directory) {
  const JsonObject config = ModelFiles::open(directory).config;
  std::vector<std::string> names;
  for (const Json& name : find(*find_object(config, "quantization_config"), "ignore")->as_array())
    names.emplace_back(name.as_string());
  std::ranges::sort(names);
  return names;
}

TEST(WrittenDirectoryOf, ExpertsAreRounded) {
  const std::string file = scratch("experts.gguf"), plain = scratch("plain");
  write(arch_directory("mixtral"), file, "f32");
  write(file, plain, "f32");
  for (const char* format : {"int4_g32", "int8", "fp8"}) {
    const std::string made = scratch("made"), want = scratch("want");
    write(file, made, format, {{"*.1.*.w2.weight", "f32"}});
    write(plain, want, format, {{"*.1.*.w2.weight", "f32"}});
    expect_tensors(made, want);
    EXPECT_EQ(ignored(made), ignored(want));
    fs::remove_all(made);
    fs::remove_all(want);
  }
  fs::remove(file);
  fs::remove_all(plain);
}

}  // namespace
}  // namespace ingot
