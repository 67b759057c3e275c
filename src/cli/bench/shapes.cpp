#include "cli/bench/shapes.h"

#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"

namespace ingot {
namespace {

struct ModelShape {
  const char* name;
  const char* arch;
  int layers, hidden, heads, kv_heads, head_dim, ffn, vocab, context;
  double theta;
  bool tied;
  int experts = 0, experts_used = 0, expert_ffn = 0;
  LatentSpec latent = {};
};

constexpr ModelShape kShapes[] = {
    {"tiny", "llama", 2, 64, 4, 2, 16, 128, 256, 512, 1e4, false},
    {"smollm2-135m", "llama", 30, 576, 9, 3, 64, 1536, 49152, 8192, 1e5, true},
    {"smollm2-360m", "llama", 32, 960, 15, 5, 64, 2560, 49152, 8192, 1e5, true},
    {"tinyllama-1.1b", "llama", 22, 2048, 32, 4, 64, 5632, 32000, 2048, 1e4, false},
    {"llama-3.2-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, 5e5, true},
    {"llama-3.2-3b", "llama", 28, 3072, 24, 8, 128, 8192, 128256, 131072, 5e5, true},
    {"llama-3.1-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 131072, 5e5, false},
    {"llama-3.1-70b", "llama", 80, 8192, 64, 8, 128, 28672, 128256, 131072, 5e5, false},
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 40960, 1e6, true},
    {"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 40960, 1e6, false},
    {"qwen3-30b-a3b", "qwen3_moe", 48, 2048, 32, 4, 128, 6144, 151936, 40960, 1e6, false, 128, 8, 768},
    {"gpt-oss-20b", "gpt_oss", 24, 2880, 64, 8, 64, 2880, 201088, 131072, 1.5e5, false, 32, 4, 2880},
    {"mixtral-8x7b", "llama", 32, 4096, 32, 8, 128, 14336, 32000, 32768, 1e6, false, 8, 2, 14336},
    {"deepseek-v2-lite",
     "deepseek_v2",
     27,
     2048,
     16,
     1,
     64,
     10944,
     102400,
     32768,
     1e4,
     false,
     64,
     6,
     1408,
     {.q_rank = 0, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .v_dim = 128}},
    {"latent-tiny",
     "deepseek_v2",
     2,
     64,
     4,
     1,
     8,
     128,
     256,
     512,
     1e4,
     false,
     8,
     3,
     32,
     {.q_rank = 24, .kv_rank = 32, .nope_dim = 32, .rope_dim = 8, .v_dim = 16}},
    // Of no published model: 1 B of 3.7 B parameters for a row, for machines with little memory.
    {"moe-4b-a1b", "qwen3_moe", 16, 2048, 16, 4, 128, 6144, 64000, 32768, 1e6, false, 32, 6, 1024},
    {"moe-tiny", "qwen3_moe", 2, 64, 4, 2, 16, 128, 256, 512, 1e4, false, 8, 3, 32},
};

// DeepSeek's: the first layer is dense, and two more experts are every row's.
void add_latent(Hparams& hp, const ModelShape& shape) {
  hp.latent = shape.latent;
  hp.attention_scale = 1 / std::sqrt(static_cast<float>(shape.latent.head_dim()));
  hp.rope.interleaved = hp.rope_local.interleaved = true;
  hp.experts.router.renormalize = false;
  hp.experts.shared_ffn = 2 * shape.expert_ffn;
  hp.experts.layers[0] = false;
}

void add_experts(Hparams& hp, const ModelShape& shape) {
  hp.experts.count = shape.experts;
  hp.experts.used = shape.experts_used;
  hp.experts.ffn = shape.expert_ffn;
  hp.experts.router.renormalize = true;
  hp.experts.layers.assign(static_cast<size_t>(hp.layers), true);
  if (shape.latent) add_latent(hp, shape);
  if (hp.arch != "gpt_oss") return;
  hp.qkv_bias = hp.o_bias = true;
  hp.window = 128;
  for (size_t i = 0; i < hp.sliding.size(); i += 2) hp.sliding[i] = true;
  for (RopeSpec* rope : {&hp.rope, &hp.rope_local}) {
    rope->kind = RopeKind::kYarn;
    rope->factor = 32;
    rope->original_context = 4096;
    rope->truncate = false;
  }
}

// Layers that get more bits: the first and last eighth, and every third between them.
bool sensitive(int layer, int layers) {
  const int eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

Format mixed_q4_k(const std::string& name, int layers, bool tied) {
  if (name == "lm_head.weight" || (tied && name == "model.embed_tokens.weight")) return Format::kQ6_K;
  const std::string prefix = "model.layers.";
  if (!name.starts_with(prefix)) return Format::kQ4_K;
  const bool candidate = name.ends_with(".v_proj.weight") || name.ends_with(".down_proj.weight");
  return candidate && sensitive(std::stoi(name.substr(prefix.size())), layers) ? Format::kQ6_K : Format::kQ4_K;
}

}  // namespace

FormatChoice formats_by_name(const std::string& name, const Hparams& hp) {
  if (name == "q4_k_m") {
    return [layers = hp.layers, tied = hp.tied](const std::string& weight) { return mixed_q4_k(weight, layers, tied); };
  }
  const std::optional<Format> format = format_by_name(name == "fp8" ? "f8_e4m3" : name);
  if (format) return [format](const std::string&) { return *format; };
  std::vector<std::string_view> known = {"q4_k_m", "fp8"};
#define X(NAME) known.push_back(format_name(Format::k##NAME));
  INGOT_FORMATS(X)
#undef X
  throw Error("[bench] format '{}' is unknown; known are {}", name, fmt::join(known, ", "));
}

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const ModelShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

Hparams shape_by_name(const std::string& name) {
  for (const ModelShape& shape : kShapes) {
    if (name != shape.name) continue;
    Hparams hp;
    hp.arch = shape.arch;
    hp.layers = shape.layers;
    hp.hidden = shape.hidden;
    hp.heads = shape.heads;
    hp.kv_heads = shape.kv_heads;
    hp.head_dim = shape.head_dim;
    hp.ffn = shape.ffn;
    hp.vocab = shape.vocab;
    hp.context = shape.context;
    hp.tied = shape.tied;
    hp.attention_scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    hp.rope.theta = shape.theta;
    hp.rope.head_dim = shape.head_dim;
    hp.rope.max_context = shape.context;
    hp.rope_local = hp.rope;
    hp.sliding.assign(static_cast<size_t>(shape.layers), false);
    hp.uses_rope.assign(static_cast<size_t>(shape.layers), true);
    if (shape.experts > 0) add_experts(hp, shape);
    return hp;
  }
  throw Error("[bench] shape '{}' is unknown; known are {}", name, fmt::join(shape_names(), ", "));
}

}  // namespace ingot
