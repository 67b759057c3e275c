// The same checkpoints as GGUF files: written here with the names, permutations and offsets that GGUF files have, then
// loaded and held against the reference implementation.
#include "files/gguf/gguf.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>

#include "base/error.h"
#include "files/gguf/gguf_writer.h"
#include "files/safetensors.h"
#include "golden/support.h"
#include "graph/kv_store.h"
#include "quant/format.h"

namespace ingot {
namespace {

using Names = std::vector<std::pair<std::string, std::string>>;

// Parts of a layer's name: as published, as in GGUF. Longer ones come before those that they contain.
const Names& layer_names(const std::string& arch) {
  static const Names common = {{"input_layernorm", "attn_norm"},
                               {"self_attn.q_proj", "attn_q"},
                               {"self_attn.k_proj", "attn_k"},
                               {"self_attn.v_proj", "attn_v"},
                               {"self_attn.qkv_proj", "attn_qkv"},
                               {"self_attn.o_proj", "attn_output"},
                               {"self_attn.q_norm", "attn_q_norm"},
                               {"self_attn.k_norm", "attn_k_norm"},
                               {"self_attn.q_a_proj", "attn_q_a"},
                               {"self_attn.q_a_layernorm", "attn_q_a_norm"},
                               {"self_attn.q_b_proj", "attn_q_b"},
                               {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
                               {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
                               {"self_attn.kv_b_proj", "attn_kv_b"},
                               {"mlp.gate_up_proj", "ffn_up"},
                               {"mlp.gate_proj", "ffn_gate"},
                               {"mlp.up_proj", "ffn_up"},
                               {"mlp.down_proj", "ffn_down"},
                               {"post_self_attn_layernorm", "post_attention_norm"},
                               {"post_mlp_layernorm", "post_ffw_norm"},
                               {"pre_feedforward_layernorm", "ffn_norm"},
                               {"post_feedforward_layernorm", "post_ffw_norm"},
                               {"mlp.gate", "ffn_gate_inp"},
                               {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                               {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                               {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
                               {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
                               {"post_attention_layernorm", "ffn_norm"}};
  static const Names sandwich = [] {
    Names names = common;
    names.back().second = "post_attention_norm";
    return names;
  }();
  static const Names gpt2 = {{"ln_1", "attn_norm"}, {"attn.c_attn", "attn_qkv"}, {"attn.c_proj", "attn_output"},
                             {"ln_2", "ffn_norm"},  {"mlp.c_fc", "ffn_up"},      {"mlp.c_proj", "ffn_down"}};
  if (arch == "gpt2") return gpt2;
  return arch == "gemma2" || arch == "gemma3" || arch == "olmo2" ? sandwich : common;
}

std::string gguf_name(const std::string& name, const std::string& arch) {
  static const Names global = {
      {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"},        {"lm_head", "output"},
      {"transformer.wte", "token_embd"},    {"transformer.wpe", "position_embd"}, {"transformer.ln_f", "output_norm"}};
  const size_t dot = name.rfind('.');
  const std::string base = name.substr(0, dot), suffix = name.substr(dot);
  for (const auto& [from, to] : global) {
    if (base == from) return to + suffix;
  }
  for (const char* prefix : {"model.layers.", "transformer.h."}) {
    if (!base.starts_with(prefix)) continue;
    const std::string rest = base.substr(std::strlen(prefix));
    const std::string index = rest.substr(0, rest.find('.'));
    for (const auto& [from, to] : layer_names(arch)) {
      if (rest.substr(index.size() + 1) == from) return "blk." + index + "." + to + suffix;
    }
  }
  throw Error("no GGUF name for {}", name);
}

struct Source {
  std::string arch;
  JsonObject config;

  int integer(const char* key, int fallback) const { return static_cast<int>(get_int(config, key, fallback)); }
};

// The tensor's values as GGUF files hold them.
std::vector<float> converted(const SafeTensor& tensor, const Source& source, std::vector<int64_t>& shape) {
  shape = tensor.shape;
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  std::vector<float> values(static_cast<size_t>(n));
  format_decode(*format_by_name(tensor.dtype), tensor.data, values.data(), n);
  if (tensor.name.ends_with("shared_expert_gate.weight")) shape = {n};
  const std::string& name = tensor.name;
  const bool gemma = source.arch.starts_with("gemma");
  if (gemma && name.ends_with("norm.weight")) {
    for (float& v : values) v += 1;
  }
  const bool matrix =
      shape.size() == 2 && name.find("wte") == std::string::npos && name.find("wpe") == std::string::npos;
  if (source.arch == "gpt2" && matrix) {
    std::vector<float> turned(values.size());
    for (int64_t r = 0; r < shape[0]; ++r) {
      for (int64_t c = 0; c < shape[1]; ++c) {
        turned[static_cast<size_t>(c * shape[0] + r)] = values[static_cast<size_t>(r * shape[1] + c)];
      }
    }
    std::swap(shape[0], shape[1]);
    return turned;
  }
  const bool q = name.find("q_proj") != std::string::npos, k = name.find("k_proj") != std::string::npos;
  if ((source.arch == "llama" || source.arch == "granite") && (q || k)) {
    const int64_t heads = source.integer(q ? "num_attention_heads" : "num_key_value_heads", 1);
    const int64_t cols = shape.size() == 2 ? shape[1] : 1, head_rows = shape[0] / heads;
    std::vector<float> permuted(values.size());
    for (int64_t r = 0; r < shape[0]; ++r) {
      // Halves (j, i) of a head become pairs (i, j).
      const int64_t head = r / head_rows, j = r % head_rows / (head_rows / 2), i = r % (head_rows / 2);
      const int64_t to = head * head_rows + 2 * i + j;
      std::copy_n(values.begin() + r * cols, cols, permuted.begin() + to * cols);
    }
    return permuted;
  }
  return values;
}

void write_metadata(GgufWriter& writer, const Source& s) {
  const auto key = [&](const char* name) { return s.arch + "." + name; };
  const auto u32 = [&](const char* to, const char* from, int fallback) {
    writer.set(key(to), static_cast<uint32_t>(s.integer(from, fallback)));
  };
  const auto f32 = [&](const char* to, const char* from) {
    if (find(s.config, from) && !find(s.config, from)->is_null()) {
      writer.set(key(to), static_cast<float>(get_float(s.config, from)));
    }
  };
  writer.set("general.architecture", s.arch);
  const int hidden = s.integer("hidden_size", s.integer("n_embd", 0)),
            heads = s.integer("num_attention_heads", s.integer("n_head", 0));
  u32("embedding_length", "", hidden);
  u32("block_count", "num_hidden_layers", s.integer("n_layer", 0));
  u32("feed_forward_length", "intermediate_size", 4 * hidden);
  u32("context_length", "max_position_embeddings", s.integer("n_positions", 0));
  u32("attention.head_count", "", heads);
  u32("attention.head_count_kv", "num_key_value_heads", heads);
  if (const int rank = s.integer("kv_lora_rank", 0)) {
    u32("attention.kv_lora_rank", "", rank);
    u32("attention.q_lora_rank", "q_lora_rank", 0);
    u32("attention.key_length", "", s.integer("qk_nope_head_dim", 0) + s.integer("qk_rope_head_dim", 0));
    u32("attention.value_length", "v_head_dim", 0);
  } else {
    u32("attention.key_length", "head_dim", hidden / heads);
  }
  if (const int base = s.integer("dim_model_base", 0))
    writer.set(key("logit_scale"), static_cast<float>(hidden) / static_cast<float>(base));
  if (s.integer("sliding_window", 0)) u32("attention.sliding_window", "sliding_window", 0);
  const int experts = s.integer("num_local_experts", s.integer("num_experts", 0));
  if (experts > 0) {
    writer.set(key("expert_count"), static_cast<uint32_t>(experts));
    u32("expert_used_count", "num_experts_per_tok", 0);
    u32("expert_feed_forward_length", "moe_intermediate_size", s.integer("intermediate_size", 0));
    if (s.integer("shared_expert_intermediate_size", 0))
      u32("expert_shared_feed_forward_length", "shared_expert_intermediate_size", 0);
  }
  f32("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  f32("attention.layer_norm_epsilon", "layer_norm_epsilon");
  f32("attn_logit_softcapping", "attn_logit_softcapping");
  f32("final_logit_softcapping", "final_logit_softcapping");
  f32("embedding_scale", "embedding_multiplier");
  f32("residual_scale", "residual_multiplier");
  f32("attention.scale", "attention_multiplier");
  f32("logit_scale", "logits_scaling");
  const JsonObject* rope = find_object(s.config, "rope_parameters");
  if (!rope || s.arch == "gemma3") return;
  writer.set(key("rope.freq_base"), static_cast<float>(get_float(*rope, "rope_theta")));
  const double partial = get_float(*rope, "partial_rotary_factor", 1);
  writer.set(key("rope.dimension_count"), static_cast<uint32_t>(s.integer("head_dim", hidden / heads) * partial));
}

// Llama 3's scaling as a divisor of each frequency.
std::vector<float> rope_factors(const JsonObject& rope, int head_dim) {
  std::vector<float> factors;
  const double factor = get_float(rope, "factor"), low = get_float(rope, "low_freq_factor");
  const double high = get_float(rope, "high_freq_factor");
  const double original = get_float(rope, "original_max_position_embeddings");
  for (int i = 0; i < head_dim; i += 2) {
    const double frequency = std::pow(get_float(rope, "rope_theta"), -static_cast<double>(i) / head_dim);
    const double length = 2 * std::numbers::pi / frequency;
    const double smooth = (original / length - low) / (high - low);
    double divisor = 1 / ((1 - smooth) / factor + smooth);
    if (length < original / high) divisor = 1;
    if (length > original / low) divisor = factor;
    factors.push_back(static_cast<float>(divisor));
  }
  return factors;
}

// The experts of a layer that are a tensor each, joined.
struct Stacks {
  struct Stack {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::map<std::string, Stack> all;

  // Adds what is an expert's, in the order of their numbers. False: it is none.
  bool add(const SafeTensor& tensor, const Source& source) {
    const size_t at = tensor.name.find(".mlp.experts.");
    if (at == std::string::npos) return false;
    const std::string layer = tensor.name.substr(std::strlen("model.layers."), at - std::strlen("model.layers."));
    const std::string rest = tensor.name.substr(at + std::strlen(".mlp.experts."));
    const auto index = static_cast<size_t>(std::stoi(rest));
    const std::string part = rest.substr(rest.find('.') + 1, rest.find("_proj") - rest.find('.') - 1);
    Stack& stack = all["blk." + layer + ".ffn_" + part + "_exps.weight"];
    std::vector<int64_t> shape;
    const std::vector<float> values = converted(tensor, source, shape);
    if (stack.values.size() < (index + 1) * values.size()) stack.values.resize((index + 1) * values.size());
    std::ranges::copy(values, stack.values.begin() + static_cast<int64_t>(index * values.size()));
    const auto count = static_cast<int64_t>(stack.values.size() / values.size());
    stack.shape = {count, shape[0], shape[1]};
    return true;
  }
};

void write_gguf(const std::string& directory, const std::string& arch, const std::string& path) {
  const Source source{arch, as_object(read_json_file(directory + "/config.json"), "config")};
  const SafeTensors tensors = SafeTensors::open(directory);
  GgufWriter writer;
  write_metadata(writer, source);
  std::vector<std::vector<float>> kept;
  kept.reserve(tensors.tensors().size() + 1);
  Stacks stacks;
  for (const SafeTensor& tensor : tensors.tensors()) {
    if (stacks.add(tensor, source)) continue;
    std::vector<int64_t> shape;
    kept.push_back(converted(tensor, source, shape));
    writer.add_tensor(gguf_name(tensor.name, arch), {shape.rbegin(), shape.rend()}, 0,
                      std::as_bytes(std::span(kept.back())));
  }
  for (const auto& [name, stack] : stacks.all) {
    writer.add_tensor(name, {stack.shape.rbegin(), stack.shape.rend()}, 0, std::as_bytes(std::span(stack.values)));
  }
  const JsonObject* rope = find_object(source.config, "rope_parameters");
  if (rope && get_string(*rope, "rope_type", "") == "llama3") {
    kept.push_back(rope_factors(*rope, source.integer("head_dim", 0)));
    writer.add_tensor("rope_freqs.weight", {static_cast<int64_t>(kept.back().size())}, 0,
                      std::as_bytes(std::span(kept.back())));
  }
  writer.write(path);
}

// The GGUF architecture of a checkpoint, or "" where GGUF has none of its own.
std::string gguf_arch(const std::string& name) {
  const Json config = read_json_file(arch_directory(name) + "/config.json");
  const std::string type = get_string(as_object(config, "config"), "model_type");
  for (const Architecture* arch : architectures()) {
    if (std::ranges::count(arch->hf_types, type) && !arch->gguf_types.empty()) return arch->gguf_types[0];
  }
  return "";
}

// Without SmolLM3: its GGUF files do not say which layers have no rope, and the checkpoint differs from the default.
std::vector<std::string> convertible() {
  std::vector<std::string> names = arch_names();
  std::erase_if(names, [](const std::string& name) { return name == "smollm3" || gguf_arch(name).empty(); });
  // Those whose experts are joined already, or whose bias has another name: files of them are tested below.
  std::erase_if(names, [](const std::string& name) {
    const SafeTensors tensors = SafeTensors::open(arch_directory(name));
    return std::ranges::any_of(tensors.tensors(), [](const SafeTensor& tensor) {
      return tensor.name.ends_with(".e_score_correction_bias") ||
             tensor.name.find(".mlp.experts.gate_up") != std::string::npos;
    });
  });
  return names;
}

void expect_logits(const std::string& path, const JsonObject& expected) {
  TestEngine test(path, {.threads = 2});
  const auto rows = all_logits(*test.engine, int_list(expected, "token_ids"));
  const std::vector<int32_t> argmax = int_list(expected, "argmax");
  const std::vector<float> logsumexp = float_list(*find_array(expected, "logsumexp"));
  const bool bf16 = kv_of_weights(test.model->graph, DType::kF16) == DType::kBF16;
  ASSERT_EQ(rows.size(), argmax.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(arg_max(rows[i]), argmax[i]) << "position " << i;
    EXPECT_NEAR(log_sum_exp(rows[i]), logsumexp[i], bf16 ? 2e-2 : 1e-3) << "position " << i;
  }
}

// Files of tiny checkpoints by llama.cpp's converter, of the architectures that are known here.
std::vector<std::string> published() {
  std::vector<std::string> names = test_data_names("arch-gguf");
  std::erase_if(names, [](const std::string& name) {
    const std::string path = test_data("arch-gguf/" + name + "/model.gguf");
    if (!std::filesystem::exists(path)) return true;
    const std::string type = Gguf::open(path).get_string("general.architecture");
    return std::ranges::none_of(
        architectures(), [&](const Architecture* arch) { return std::ranges::count(arch->gguf_types, type) > 0; });
  });
  return names;
}

class PublishedGguf : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PublishedGguf);

TEST_P(PublishedGguf, LogitsEqualReference) {
  const std::string folder = test_data("arch-gguf/" + GetParam());
  expect_logits(folder + "/model.gguf", as_object(read_json_file(folder + "/expected.json"), "expected"));
}

INSTANTIATE_TEST_SUITE_P(All, PublishedGguf, testing::ValuesIn(published()),
                         [](const testing::TestParamInfo<std::string>& name) { return test_name(name.param); });

class AsGguf : public testing::TestWithParam<std::string> {};

TEST_P(AsGguf, LogitsEqualReference) {
  const std::string& name = GetParam();
  const std::string arch = gguf_arch(name);
  const std::string directory = arch_directory(name);
  const std::string path = testing::TempDir() + "ingot_" + name + "_" + std::to_string(getpid()) + ".gguf";
  write_gguf(directory, arch, path);
  const JsonObject expected = as_object(read_json_file(directory + "/expected.json"), "expected");
  expect_logits(path, expected);
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(All, AsGguf, testing::ValuesIn(convertible()),
                         [](const testing::TestParamInfo<std::string>& name) { return test_name(name.param); });

}  // namespace
}  // namespace ingot
