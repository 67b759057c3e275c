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
#include "golden/gguf_experts.h"
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
                               {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
                               {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
                               {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
                               {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
                               {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
                               {"mlp.shared_mlp.down_proj", "ffn_down_shexp"},
                               {"mlp.gate.wg", "ffn_gate_inp"},
                               {"mlp.router.gate", "ffn_gate_inp"},
                               {"block_sparse_moe.gate", "ffn_gate_inp"},
                               {"block_sparse_moe.router.layer", "ffn_gate_inp"},
                               {"feed_forward.router", "ffn_gate_inp"},
                               {"feed_forward.gate_proj", "ffn_gate"},
                               {"feed_forward.up_proj", "ffn_up"},
                               {"feed_forward.down_proj", "ffn_down"},
                               {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
                               {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
                               {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
                               {"self_attn.query_layernorm", "attn_q_norm"},
                               {"self_attn.key_layernorm", "attn_k_norm"},
                               {"self_attn.gate_proj", "attn_gate"},
                               {"pre_mlp_layernorm", "ffn_norm"},
                               {"post_attention_layernorm", "ffn_norm"}};
  static const Names sandwich = [] {
    Names names = common;
    names.back().second = "post_attention_norm";
    return names;
  }();
  static const Names gpt2 = {{"ln_1", "attn_norm"}, {"attn.c_attn", "attn_qkv"}, {"attn.c_proj", "attn_output"},
                             {"ln_2", "ffn_norm"},  {"mlp.c_fc", "ffn_up"},      {"mlp.c_proj", "ffn_down"}};
  if (arch == "gpt2") return gpt2;
  return arch == "gemma2" || arch == "gemma3" || arch == "olmo2" || arch == "afmoe" ? sandwich : common;
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
    if (name.ends_with("e_score_correction_bias") || name.ends_with(".expert_bias"))
      return "blk." + index + ".exp_probs_b.bias";
    if (name.ends_with(".attention_sink_bias")) return "blk." + index + ".attn_sinks.weight";
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
  if (tensor.name.ends_with("shared_expert_gate.weight") || tensor.name.ends_with("_bias")) shape = {n};
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
  if ((source.arch == "llama" || source.arch.starts_with("granite")) && (q || k)) {
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

// The number under the first of these keys that the config has.
int first_of(const Source& s, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const int n = s.integer(key, 0)) return n;
  }
  return 0;
}

void write_experts(GgufWriter& writer, const Source& s) {
  const int count = first_of(s, {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"});
  if (count == 0) return;
  const auto u32 = [&](const char* to, int n) {
    if (n > 0) writer.set(s.arch + "." + to, static_cast<uint32_t>(n));
  };
  u32("expert_count", count);
  u32("expert_used_count", first_of(s, {"num_experts_per_tok", "moe_k", "moe_topk"}));
  u32("expert_feed_forward_length", first_of(s, {"moe_intermediate_size", "intermediate_size"}));
  u32("expert_shared_count", first_of(s, {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}));
  u32("expert_shared_feed_forward_length",
      first_of(s, {"shared_expert_intermediate_size", "shared_intermediate_size"}));
  u32("expert_group_count", s.integer("n_group", 0));
  u32("expert_group_used_count", s.integer("topk_group", 0));
  for (const char* key : {"routed_scaling_factor", "route_scale"}) {
    if (find(s.config, key)) writer.set(s.arch + ".expert_weights_scale", static_cast<float>(get_float(s.config, key)));
  }
  if (find(s.config, "norm_topk_prob"))
    writer.set(s.arch + ".expert_weights_norm", get_bool(s.config, "norm_topk_prob", false));
}

// One number, or one for each layer where those with a window have more.
void write_kv_heads(GgufWriter& writer, const Source& s, int heads) {
  const auto all = static_cast<uint32_t>(s.integer("num_key_value_heads", heads));
  if (s.arch == "afmoe") writer.set(s.arch + ".attention.sliding_window_pattern", uint32_t{2});
  if (s.arch != "mimo2") return writer.set(s.arch + ".attention.head_count_kv", all);
  std::vector<uint32_t> of_layers, windows;
  for (const Json& type : *find_array(s.config, "layer_types")) {
    windows.push_back(as_string(type, "layer_types") == "sliding_attention" ? 1 : 0);
    of_layers.push_back(windows.back() ? 2 * all : all);
  }
  writer.set_array(s.arch + ".attention.head_count_kv", std::span<const uint32_t>(of_layers));
  writer.set_array(s.arch + ".attention.sliding_window_pattern", std::span<const uint32_t>(windows));
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
  u32("feed_forward_length", s.arch == "llama4" ? "intermediate_size_mlp" : "intermediate_size", 4 * hidden);
  u32("context_length", "max_position_embeddings", s.integer("n_positions", 0));
  u32("attention.head_count", "", heads);
  write_kv_heads(writer, s, heads);
  if (const int rank = s.integer("kv_lora_rank", 0)) {
    u32("attention.kv_lora_rank", "", rank);
    const Json* q_rank = find(s.config, "q_lora_rank");
    if (q_rank != nullptr && !q_rank->is_null()) u32("attention.q_lora_rank", "q_lora_rank", 0);
    u32("attention.key_length", "", s.integer("qk_nope_head_dim", 0) + s.integer("qk_rope_head_dim", 0));
    u32("attention.value_length", "v_head_dim", 0);
  } else {
    u32("attention.key_length", "head_dim", hidden / heads);
    if (s.integer("v_head_dim", 0)) u32("attention.value_length", "v_head_dim", 0);
  }
  if (const int base = s.integer("dim_model_base", 0))
    writer.set(key("logit_scale"), static_cast<float>(hidden) / static_cast<float>(base));
  if (s.integer("sliding_window", 0)) u32("attention.sliding_window", "sliding_window", 0);
  write_experts(writer, s);
  f32("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  f32("attention.layer_norm_epsilon", "layer_norm_epsilon");
  f32("attn_logit_softcapping", "attn_logit_softcapping");
  f32("final_logit_softcapping", "final_logit_softcapping");
  f32("embedding_scale", "embedding_multiplier");
  f32("residual_scale", "residual_multiplier");
  f32("attention.scale", "attention_multiplier");
  f32("logit_scale", "logits_scaling");
  f32("attention.value_scale", "attention_value_scale");
  const JsonObject* rope = find_object(s.config, "rope_parameters");
  if (!rope || s.arch == "gemma3") return;
  if (const JsonObject* local = find(*rope, "sliding_attention") ? find_object(*rope, "sliding_attention") : nullptr) {
    writer.set(key("rope.freq_base_swa"), static_cast<float>(get_float(*local, "rope_theta")));
    rope = find_object(*rope, "full_attention");
  }
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

void write_gguf(const std::string& directory, const std::string& arch, const std::string& path) {
  const Source source{arch, as_object(read_json_file(directory + "/config.json"), "config")};
  const SafeTensors tensors = SafeTensors::open(directory);
  GgufWriter writer;
  write_metadata(writer, source);
  std::vector<std::vector<float>> kept;
  kept.reserve(tensors.tensors().size() + 1);
  GgufStacks stacks;
  for (const SafeTensor& tensor : tensors.tensors()) {
    std::vector<int64_t> shape;
    std::vector<float> values = converted(tensor, source, shape);
    if (stacks.add(tensor.name, shape, values)) continue;
    kept.push_back(std::move(values));
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
  // gpt-oss takes rows of gate and up in turn, some of them packed: a file of it is tested below.
  std::erase_if(names, [](const std::string& name) { return gguf_arch(name) == "gpt-oss"; });
  return names;
}

// Of the first `most` positions.
void expect_logits(const std::string& path, const JsonObject& expected, size_t most = 1000) {
  TestEngine test(path, {.threads = 2});
  std::vector<int32_t> tokens = int_list(expected, "token_ids"), argmax = int_list(expected, "argmax");
  for (std::vector<int32_t>* list : {&tokens, &argmax}) list->resize(std::min(list->size(), most));
  const auto rows = all_logits(*test.engine, tokens);
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
  // Llama 4's chunks and temperature are those of the published models in GGUF: the checkpoint's begin at 8 positions.
  expect_logits(path, expected, arch == "llama4" ? 7 : 1000);
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(All, AsGguf, testing::ValuesIn(convertible()),
                         [](const testing::TestParamInfo<std::string>& name) { return test_name(name.param); });

}  // namespace
}  // namespace ingot
