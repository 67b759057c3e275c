#include "weights/names.h"

#include "base/error.h"

namespace ingot {
namespace {

using Pair = std::pair<std::string, std::string>;

const std::vector<Pair>& common_layer() {
  static const std::vector<Pair> table = {
      {"attn_norm", "input_layernorm"},
      {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},
      {"attn_qkv", "self_attn.qkv_proj"},
      {"attn_output", "self_attn.o_proj"},
      {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"},
      {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"},
      {"post_attention_norm", "post_attention_layernorm"},
      {"post_ffw_norm", "post_feedforward_layernorm"},
      {"attn_sinks", "self_attn.sinks"},
      {"ffn_gate_inp", "mlp.gate"},
      {"ffn_gate_exps", "mlp.experts.gate_proj"},
      {"ffn_up_exps", "mlp.experts.up_proj"},
      {"ffn_down_exps", "mlp.experts.down_proj"},
      {"ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
      {"exp_probs_b", "mlp.expert_bias"},
      {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
      {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
      {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
      {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
  };
  return table;
}

const std::vector<Pair>& common_global() {
  static const std::vector<Pair> table = {
      {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
  return table;
}

// What the first table that has the GGUF name `key` says of it.
const std::string* look_up(std::string_view key, const std::vector<Pair>& own, const std::vector<Pair>& common) {
  for (const std::vector<Pair>* table : {&own, &common}) {
    for (const Pair& pair : *table) {
      if (pair.first == key) return &pair.second;
    }
  }
  return nullptr;
}

// The first GGUF name that means `name`: one that an architecture reads as something else does not.
const std::string* look_back(std::string_view name, const std::vector<Pair>& own, const std::vector<Pair>& common) {
  for (const std::vector<Pair>* table : {&own, &common}) {
    for (const Pair& pair : *table) {
      if (pair.second == name && *look_up(pair.first, own, common) == name) return &pair.first;
    }
  }
  return nullptr;
}

// Splits "12.rest" into the number's text and "rest"; both empty where it is not so.
std::pair<std::string_view, std::string_view> split_index(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || dot == 0 || text.find_first_not_of("0123456789") != dot) return {};
  return {text.substr(0, dot), text.substr(dot + 1)};
}

// Splits "attn_q.weight" into "attn_q" and ".weight"; the second is empty where there is no dot.
std::pair<std::string_view, std::string_view> split_suffix(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot)};
}

}  // namespace

std::string canonical_from_gguf(std::string_view gguf_name, const ArchNames& arch) {
  const auto [base, suffix] = split_suffix(gguf_name);
  if (!base.starts_with("blk.")) {
    const std::string* name = look_up(base, arch.gguf_global, common_global());
    return name ? *name + std::string(suffix) : "";
  }
  const auto [index, part] = split_index(base.substr(4));
  const std::string* name = look_up(part, arch.gguf_layer, common_layer());
  if (!name) return "";
  return fmt::format("{}{}.{}{}", arch.layers_prefix, index, *name, suffix);
}

std::string gguf_from_canonical(std::string_view name, const ArchNames& arch) {
  const auto [base, suffix] = split_suffix(name);
  if (base.starts_with(arch.layers_prefix)) {
    const auto [index, part] = split_index(base.substr(arch.layers_prefix.size()));
    if (const std::string* gguf = look_back(part, arch.gguf_layer, common_layer())) {
      return fmt::format("blk.{}.{}{}", index, *gguf, suffix);
    }
  } else if (const std::string* gguf = look_back(base, arch.gguf_global, common_global())) {
    return *gguf + std::string(suffix);
  }
  throw Error("[weights] '{}' has no name in GGUF", name);
}

bool name_matches(std::string_view name, std::string_view pattern) {
  // Greedy with one point of return: after the latest '*', try one character more of the name.
  size_t n = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace ingot
