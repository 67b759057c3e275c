// Latent attention: files that do not fit are refused at load, with one line that says what and where; and the cache
// holds no more than the latent and its rotary part.
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
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

TEST(Latent, TheCacheHoldsNoMoreThanTheLatent) {
  const Model model = Model::load(arch_directory("minicpm3"), {});
  ASSERT_EQ(model.graph.kv_groups.size(), 1u);
  EXPECT_TRUE(model.graph.kv_groups[0].latent);
  EXPECT_EQ(kv_page_bytes(model.graph, DType::kF32, 64), 64 * model.hp.layers * (24 + 8) * 4);
  EXPECT_EQ(kv_page_bytes(model.graph, DType::kFp8, 64), 64 * model.hp.layers * (24 + 8 * 2));
}

}  // namespace
}  // namespace ingot
