#include "compress/mix.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "base/error.h"
#include "weights/names.h"

namespace ingot {
namespace {

constexpr std::array kMixes = {
    Mix{"f32", Format::kF32, 0},        Mix{"f16", Format::kF16, 1},        Mix{"bf16", Format::kBF16, 32},
    Mix{"q4_0", Format::kQ4_0, 2},      Mix{"q4_1", Format::kQ4_1, 3},      Mix{"q5_0", Format::kQ5_0, 8},
    Mix{"q5_1", Format::kQ5_1, 9},      Mix{"q8_0", Format::kQ8_0, 7},      Mix{"q2_k", Format::kQ2_K, 10},
    Mix{"q2_k_s", Format::kQ2_K, 21},   Mix{"q3_k_s", Format::kQ3_K, 11},   Mix{"q3_k_m", Format::kQ3_K, 12},
    Mix{"q3_k_l", Format::kQ3_K, 13},   Mix{"q4_k_s", Format::kQ4_K, 14},   Mix{"q4_k_m", Format::kQ4_K, 15},
    Mix{"q5_k_s", Format::kQ5_K, 16},   Mix{"q5_k_m", Format::kQ5_K, 17},   Mix{"q6_k", Format::kQ6_K, 18},
    Mix{"iq4_nl", Format::kIQ4_NL, 25}, Mix{"iq4_xs", Format::kIQ4_XS, 30}, Mix{"mxfp4_moe", Format::kMXFP4, 38},
};
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kAliases = {
    {{"q3_k", "q3_k_m"}, {"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}, {"mxfp4", "mxfp4_moe"}}};

enum class Part : uint8_t { kEmbedding, kQ, kV, kK, kQkv, kKvB, kAttentionOut, kUp, kGate, kDown, kOutput, kOther };

bool has(const std::string& name, std::string_view text) { return name.find(text) != std::string::npos; }

Part part_of(const std::string& name) {
  if (name == "output.weight") return Part::kOutput;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Part::kEmbedding;
  constexpr std::pair<std::string_view, Part> kParts[] = {
      {"attn_qkv.weight", Part::kQkv}, {"attn_kv_b.weight", Part::kKvB}, {"attn_v.weight", Part::kV},
      {"attn_k.weight", Part::kK},     {"attn_q.weight", Part::kQ},      {"attn_output.weight", Part::kAttentionOut},
      {"ffn_up", Part::kUp},           {"ffn_gate", Part::kGate},        {"ffn_down", Part::kDown},
  };
  for (const auto& [text, part] : kParts) {
    if (has(name, text)) return part;
  }
  return Part::kOther;
}

bool makes_values(Part part) { return part == Part::kV || part == Part::kQkv || part == Part::kKvB; }

int layer_of(const std::string& name) {
  if (!name.starts_with("blk.")) return -1;
  int layer = -1;
  std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

// The first and last eighth of n layers, and every third between them.
bool more_bits(int layer, int n) { return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2; }

// The choice for one tensor after the other: it counts those that it met.
class Chooser {
 public:
  Chooser(const Mix& mix, const MixModel& model, const std::vector<MixTensor>& tensors, const MixOptions& options)
      : mix_(mix.name), base_(mix.base), model_(model), options_(options) {
    for (const MixTensor& tensor : tensors) {
      const Part part = part_of(tensor.name);
      if (makes_values(part)) ++value_layers_;
      if (part == Part::kOutput) tied_ = false;
    }
  }

  Format choose(const MixTensor& tensor) {
    const Part part = part_of(tensor.name);
    if (part == Part::kOutput || (tied_ && part == Part::kEmbedding)) return head(tensor);
    if (mix_ == "mxfp4_moe") return tensor.shape.size() > 2 ? Format::kMXFP4 : Format::kQ8_0;
    if (makes_values(part)) return values();
    switch (part) {
      case Part::kK:
        return model_.experts == 8 ? Format::kQ8_0 : base_;
      case Part::kDown:
        return down(tensor.name);
      case Part::kAttentionOut:
        return attention_out();
      default:
        return base_;
    }
  }

 private:
  bool is(std::initializer_list<std::string_view> names) const {
    return std::find(names.begin(), names.end(), mix_) != names.end();
  }
  bool falcon() const { return model_.arch == "falcon"; }
  int group() const { return model_.kv_heads > 0 ? model_.heads / model_.kv_heads : 0; }
  // Models whose v is an eighth of q.
  bool large() const {
    return model_.layers == 80 && (model_.arch == "qwen2" || model_.arch == "olmo" || model_.arch == "deci" ||
                                   (model_.arch == "llama" && model_.heads != model_.kv_heads));
  }

  Format head(const MixTensor& tensor) const {
    if (mix_ == "mxfp4_moe" || falcon() || tensor.shape.back() % format_block(base_) != 0) return Format::kQ8_0;
    return base_ == Format::kQ8_0 ? base_ : Format::kQ6_K;
  }

  Format values() {
    Format chosen = base_;
    const int i = met_values_++;
    if (mix_ == "q2_k") chosen = group() >= 4 ? Format::kQ4_K : Format::kQ3_K;
    if (mix_ == "q2_k_s" && group() >= 4) chosen = Format::kQ4_K;
    if (mix_ == "q3_k_m") chosen = i < 2 ? Format::kQ5_K : Format::kQ4_K;
    if (mix_ == "q3_k_l") chosen = Format::kQ5_K;
    if (is({"iq4_nl", "iq4_xs"}) && group() >= 4) chosen = Format::kQ5_K;
    if (is({"q4_k_m", "q5_k_m"}) && more_bits(i, value_layers_)) chosen = Format::kQ6_K;
    if (mix_ == "q4_k_s" && i < 4) chosen = Format::kQ5_K;
    if (large() && (chosen == Format::kQ3_K || chosen == Format::kQ4_K)) chosen = Format::kQ5_K;
    return model_.experts == 8 ? Format::kQ8_0 : chosen;
  }

  Format down(const std::string& name) {
    const int n = model_.layers, met = met_downs_++, i = model_.experts > 1 ? layer_of(name) : met;
    const bool early = i < n / 8;
    if (mix_ == "q2_k") return Format::kQ3_K;
    if (mix_ == "q2_k_s" && early) return Format::kQ4_K;
    if (mix_ == "q3_k_m" && i < n / 16) return Format::kQ5_K;
    if (mix_ == "q3_k_m") return falcon() && !more_bits(i, n) ? Format::kQ3_K : Format::kQ4_K;
    if (mix_ == "q3_k_l") return falcon() ? Format::kQ4_K : Format::kQ5_K;
    if (mix_ == "q4_k_m" && falcon() && i >= n / 16) return more_bits(i, n) ? Format::kQ5_K : Format::kQ4_K;
    if (is({"q4_k_m", "q5_k_m"}) && more_bits(i, n)) return Format::kQ6_K;
    if (is({"iq4_nl", "iq4_xs"}) && early && !options_.importances) return Format::kQ5_K;
    if (mix_ == "q4_k_s" && early && !falcon()) return Format::kQ5_K;
    if (mix_ == "q4_0" && early && options_.importances) return Format::kQ4_1;
    if (mix_ == "q5_0" && early && options_.importances) return Format::kQ5_1;
    return base_;
  }

  Format attention_out() const {
    if (falcon()) return mix_ == "q3_k_l" ? Format::kQ4_K : base_;
    if (model_.experts == 8)
      return is({"q2_k", "q3_k_s", "q3_k_m", "iq4_nl", "q4_k_s", "q4_k_m", "iq4_xs"}) ? Format::kQ5_K : base_;
    if (mix_ == "q2_k") return Format::kQ3_K;
    if (mix_ == "q3_k_m") return Format::kQ4_K;
    if (mix_ == "q3_k_l") return Format::kQ5_K;
    return base_;
  }

  const std::string_view mix_;
  const Format base_;
  const MixModel& model_;
  const MixOptions& options_;
  bool tied_ = true;
  int value_layers_ = 0, met_values_ = 0, met_downs_ = 0;
};

std::optional<Format> named_by(const MixOptions& options, const std::string& name) {
  for (const auto& [pattern, format] : options.tensors) {
    if (name_matches(name, pattern)) return format;
  }
  return {};
}

}  // namespace

const Mix* find_mix(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& [alias, mix] : kAliases) {
    if (lower == alias) lower = mix;
  }
  const auto it = std::ranges::find_if(kMixes, [&](const Mix& mix) { return mix.name == lower; });
  return it == kMixes.end() ? nullptr : &*it;
}

std::vector<std::string> mix_names() {
  std::vector<std::string> names;
  for (const Mix& mix : kMixes) names.emplace_back(mix.name);
  return names;
}

bool mix_quantizes(const MixTensor& tensor) {
  const std::string& name = tensor.name;
  // A matrix of one row counts as a vector.
  const auto rows = std::accumulate(tensor.shape.begin(), tensor.shape.end() - 1, int64_t{1}, std::multiplies<>());
  if (rows < 2 || !name.ends_with("weight")) return false;
  constexpr std::string_view kKept[] = {"_norm.weight",
                                        "ffn_gate_inp.weight",
                                        "altup",
                                        "laurel",
                                        "per_layer_model_proj",
                                        "ssm_conv1d",
                                        "shortconv.conv.weight",
                                        "time_mix_",
                                        "attn_rel_b.weight",
                                        ".position_embd",
                                        "indexer.k_proj.weight",
                                        "indexer.q_proj.weight"};
  if (name == "position_embd.weight" || name == "token_types.weight") return false;
  return std::ranges::none_of(kKept, [&](std::string_view text) { return has(name, text); });
}

Format format_that_fits(Format format, int64_t cols) {
  if (cols % format_block(format) == 0) return format;
  Format other = Format::kF16;
  if (format == Format::kIQ4_XS) other = Format::kIQ4_NL;
  if (format == Format::kQ2_K || format == Format::kQ3_K) other = Format::kQ4_0;
  if (format == Format::kQ4_K) other = Format::kQ5_0;
  if (format == Format::kQ5_K) other = Format::kQ5_1;
  if (format == Format::kQ6_K) other = Format::kQ8_0;
  return cols % format_block(other) == 0 ? other : Format::kF16;
}

std::vector<MixChoice> choose_mix(const Mix& mix, const MixModel& model, const std::vector<MixTensor>& tensors,
                                  const MixOptions& options) {
  Chooser chooser(mix, model, tensors, options);
  // Layer by layer and by name, what is outside of layers first: counts follow this order.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const int la = layer_of(tensors[a].name), lb = layer_of(tensors[b].name);
    return la != lb ? la < lb : tensors[a].name < tensors[b].name;
  });
  const bool blocks = format_block(mix.base) > 1;
  std::vector<MixChoice> choices(tensors.size());
  for (const size_t i : order) {
    const MixTensor& tensor = tensors[i];
    if (!mix_quantizes(tensor)) continue;
    const std::optional<Format> named = named_by(options, tensor.name);
    Format format = mix.base;
    if (named) {
      format = *named;
    } else if (blocks && !options.pure) {
      format = chooser.choose(tensor);
    }
    const Format fitting = format_that_fits(format, tensor.shape.back());
    choices[i] = {.format = fitting, .fallback = fitting != format};
    const bool outside = layer_of(tensor.name) < 0;
    if (mix.name == "q2_k_s" && fitting == Format::kQ2_K && !outside && !options.importances)
      throw Error("[quantize] q2_k_s needs importances: a method other than rtn, or another format");
  }
  return choices;
}

}  // namespace ingot
