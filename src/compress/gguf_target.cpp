#include "compress/gguf_target.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace ingot {
namespace {

constexpr std::array<GgufTarget, 30> kTargets = {{
    {"llama", "llama"},
    {"mistral", "llama"},
    {"mixtral", "llama"},
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},
    {"qwen2_moe", "qwen2moe"},
    {"qwen3_moe", "qwen3moe"},
    {"olmoe", "olmoe"},
    {"gemma2", "gemma2"},
    {"gemma3", "gemma3"},
    {"granite", "granite"},
    {"granitemoe", "granitemoe"},
    {"phi3", "phi3"},
    {"phimoe", "phimoe"},
    {"olmo2", "olmo2"},
    {"smollm3", "smollm3"},
    {"glm4", "glm4"},
    {"glm4_moe", "glm4moe"},
    {"gpt2", "gpt2"},
    {"gpt_oss", "gpt-oss", {.transposed = true, .interleaved = true}, true},
    {"deepseek_v2", "deepseek2"},
    {"deepseek_v3", "deepseek2"},
    {"dots1", "dots1"},
    {"minimax_m2", "minimax-m2"},
    {"ernie4_5_moe", "ernie4_5-moe"},
    {"hunyuan_moe", "hunyuan-moe"},
    {"afmoe", "afmoe"},
    {"llama4", "llama4", {.transposed = true}},
    {"mimo_v2_flash", "mimo2"},
    {"minicpm3", "minicpm3"},
}};

// How such a name ends, and what follows "blk.N." in GGUF.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kEndings = {{
    {".e_score_correction_bias", "exp_probs_b.bias"},
    {".expert_bias", "exp_probs_b.bias"},
    {".self_attn.sinks", "attn_sinks.weight"},
    {".self_attn.attention_sink_bias", "attn_sinks.weight"},
}};

}  // namespace

const GgufTarget& gguf_target(std::string_view arch) {
  std::string known;
  for (const GgufTarget& target : kTargets) {
    if (target.arch == arch) return target;
    known += (known.empty() ? "" : ", ") + std::string(target.arch);
  }
  throw Error("[quantize] '{}' cannot be written as GGUF; {} can", arch, known);
}

std::optional<std::string> gguf_layer_name(std::string_view canonical, int layer) {
  for (const auto& [ending, name] : kEndings) {
    if (layer >= 0 && canonical.ends_with(ending)) return fmt::format("blk.{}.{}", layer, name);
  }
  return {};
}

std::string shared_part(const std::string& canonical) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {".shared_mlp.input_linear.weight", ".shared_mlp.gate_proj.weight"},
      {".shared_mlp.output_linear.weight", ".shared_mlp.down_proj.weight"}};
  for (const auto& [published, part] : kNames) {
    if (canonical.ends_with(published))
      return canonical.substr(0, canonical.size() - published.size()) + std::string(part);
  }
  return canonical;
}

}  // namespace ingot
