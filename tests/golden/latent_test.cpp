// Latent attention: files that do not fit are refused at load, with one line that says what and where; and the cache
// holds no more than the latent and its rotary part.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>

#include "base/error.h"
#include "files/safetensors.h"
#include "golden/support.h"
#include "graph/kv_store.h"

namespace ingot {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// What loading the checkpoint says when `from` is `to` in one of its files; "" where it loads.
std::string said(const std::string& file, const std::string& from, const std::string& to) {
  const std::string folder = testing::TempDir() + "ingot_latent_" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::copy(arch_directory("minicpm3"), folder);
  std::string text = text_of(folder + "/" + file);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  std::filesystem::remove(folder + "/" + file);
  std::ofstream(folder + "/" + file, std::ios::binary) << text;
  std::string message;
  try {
    Model::load(folder, {});
  } catch (const Error& e) {
    message = e.what();
  }
  std::filesystem::remove_all(folder);
  return message;
}

TEST(Latent, SizesThatDoNotFitAreRefused) {
  const auto expect_said = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  expect_said(said("config.json", "\"kv_lora_rank\": 24", "\"kv_lora_rank\": 0"), "kv_lora_rank");
  expect_said(said("config.json", "\"q_lora_rank\": 24", "\"q_lora_rank\": 0"), "q_lora_rank");
  expect_said(said("config.json", "\"kv_lora_rank\": 24", "\"other\": 24"), "kv_lora_rank");
  expect_said(said("config.json", "\"qk_rope_head_dim\": 8", "\"qk_rope_head_dim\": 7"), "7 rotary values");
  expect_said(said("config.json", "\"qk_nope_head_dim\": 16", "\"qk_nope_head_dim\": -1"), "qk_nope_head_dim");
  expect_said(said("config.json", "\"v_head_dim\": 16", "\"v_head_dim\": 8"), "kv_b_proj.weight' is [128, 24]");
  expect_said(said("config.json", "\"kv_lora_rank\": 24", "\"kv_lora_rank\": 16"), "kv_a_proj_with_mqa");
  expect_said(said("model.safetensors", "layers.1.self_attn.kv_b_proj", "layers.1.self_attn.kv_c_proj"),
              "'model.layers.1.self_attn.kv_b_proj.weight' [128, 24] is missing");
  EXPECT_EQ(said("config.json", "\"scale_depth\": 1.4", "\"scale_depth\": 1.5"), "");
}

// The checkpoint with its matrices in e4m3 and a scale for each 16 × 16 of them; and with the values that those mean.
class Fp8Copies {
 public:
  explicit Fp8Copies(const std::string& name) {
    const std::string from = arch_directory(name);
    const SafeTensors tensors = SafeTensors::open(from);
    Writer coded, plain;
    for (const SafeTensor& t : tensors.tensors()) {
      std::vector<float> values(t.bytes / sizeof(float));
      std::memcpy(values.data(), t.data, t.bytes);
      const bool matrix = t.shape.size() == 2 && t.name.find("layers.") != std::string::npos &&
                          t.name.find("mlp.gate.") == std::string::npos;
      if (matrix) add_coded(coded, t, values);  // rounds the values
      if (!matrix) coded.add(t.name, "F32", t.shape, std::as_bytes(std::span(values)));
      plain.add(t.name, "F32", t.shape, std::as_bytes(std::span(values)));
    }
    std::string config = text_of(from + "/config.json");
    write(fp8, coded, config.insert(config.find('{') + 1, "\"quantization_config\": {\"quant_method\": \"fp8\"},"));
    write(f32, plain, text_of(from + "/config.json"));
  }
  ~Fp8Copies() {
    std::filesystem::remove_all(fp8);
    std::filesystem::remove_all(f32);
  }
  const std::string fp8 = testing::TempDir() + "ingot_fp8_" + std::to_string(getpid());
  const std::string f32 = testing::TempDir() + "ingot_f32_" + std::to_string(getpid());

 private:
  struct Writer {
    JsonObject header;
    std::string data;

    void add(const std::string& name, const char* dtype, const std::vector<int64_t>& shape,
             std::span<const std::byte> bytes) {
      const auto begin = static_cast<int64_t>(data.size());
      data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      header[name] = JsonObject{{"dtype", dtype},
                                {"shape", JsonArray(shape.begin(), shape.end())},
                                {"data_offsets", JsonArray{begin, static_cast<int64_t>(data.size())}}};
    }
  };

  static void add_coded(Writer& to, const SafeTensor& t, std::vector<float>& values) {
    constexpr int64_t kBlock = 16;
    const int64_t rows = t.shape[0], cols = t.shape[1], across = (cols + kBlock - 1) / kBlock;
    std::vector<float> scales(static_cast<size_t>((rows + kBlock - 1) / kBlock * across), 0.0f);
    const auto scale = [&](int64_t i) -> float& {
      return scales[static_cast<size_t>(i / cols / kBlock * across + i % cols / kBlock)];
    };
    const auto n = static_cast<int64_t>(values.size());
    for (int64_t i = 0; i < n; ++i) scale(i) = std::max(scale(i), std::abs(values[static_cast<size_t>(i)]) / 448);
    std::vector<std::byte> codes(values.size());
    for (int64_t i = 0; i < n; ++i) {
      float& value = values[static_cast<size_t>(i)];
      const float unit = value / scale(i);
      format_encode(Format::kF8_E4M3, &unit, &codes[static_cast<size_t>(i)], 1);
      format_decode(Format::kF8_E4M3, &codes[static_cast<size_t>(i)], &value, 1);
      value *= scale(i);
    }
    to.add(t.name, "F8_E4M3", t.shape, codes);
    to.add(t.name + "_scale_inv", "F32", {(rows + kBlock - 1) / kBlock, across}, std::as_bytes(std::span(scales)));
  }
  static void write(const std::string& folder, const Writer& tensors, const std::string& config) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/config.json") << config;
    const std::string header = to_json(tensors.header);
    const uint64_t size = header.size();
    std::ofstream out(folder + "/model.safetensors", std::ios::binary);
    out.write(reinterpret_cast<const char*>(&size), sizeof(size));
    out << header << tensors.data;
  }
};

TEST(Latent, EightBitFloatsWithBlocksOfScales) {
  const Fp8Copies copies("deepseek-v3");
  const std::vector<int32_t> tokens = {5, 17, 99, 3, 250, 41, 7, 7, 180, 66};
  TestEngine coded(copies.fp8), plain(copies.f32);
  const auto got = all_logits(*coded.engine, tokens), want = all_logits(*plain.engine, tokens);
  ASSERT_EQ(got.size(), tokens.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(nmse(got[i], want[i]), 1e-9) << "position " << i;
}

TEST(Latent, TheCacheHoldsNoMoreThanTheLatent) {
  const Model model = Model::load(arch_directory("minicpm3"), {});
  ASSERT_EQ(model.graph.kv_groups.size(), 1u);
  EXPECT_TRUE(model.graph.kv_groups[0].latent);
  EXPECT_EQ(kv_page_bytes(model.graph, DType::kF32, 64), 64 * model.hp.layers * (24 + 8) * 4);
  EXPECT_EQ(kv_page_bytes(model.graph, DType::kFp8, 64), 64 * model.hp.layers * (24 + 8 * 2));
}

}  // namespace
}  // namespace ingot
