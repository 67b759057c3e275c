#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "weights/config.h"
#include "weights/hparams.h"

namespace ingot {
namespace {

// The first of these keys that a config has; GGUF has one name.
const char* present(const Config& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const Json* value = config.is_gguf() ? nullptr : find(config.json(), key);
    if (value && !value->is_null()) return key;
  }
  return *keys.begin();
}

// Some publish a number for each layer, always the same.
int count_of(const Config& config, std::initializer_list<const char*> keys, const char* gguf, int low, int high,
             std::optional<int> fallback = {}) {
  const char* key = present(config, keys);
  const Json* value = config.is_gguf() ? nullptr : find(config.json(), key);
  if (value == nullptr || !value->is_array()) return config.integer(key, gguf, low, high, fallback);
  const std::vector<double> all = config.numbers(key, "");
  if (all.empty() || std::ranges::any_of(all, [&](double n) { return n != all[0]; }))
    throw Error("[config] '{}' differs from layer to layer, which is not supported", key);
  if (all[0] < low || all[0] > high || all[0] != std::floor(all[0]))
    throw Error("[config] '{}' is {}, expected a whole number from {} to {}", key, all[0], low, high);
  return static_cast<int>(all[0]);
}

float number_of(const Config& config, std::initializer_list<const char*> keys, const char* gguf, double fallback) {
  return static_cast<float>(config.number(present(config, keys), gguf).value_or(fallback));
}

// Where the file says which function it is; else what the architecture has by itself.
void read_score(RouterSpec& router, const Config& config) {
  if (config.is_gguf()) {
    const int function = config.integer("", "expert_gating_func", 0, 8, 0);
    if (function == 1) router.score = RouterScore::kSoftmax;
    if (function == 2) router.score = RouterScore::kSigmoid;
    if (function > 2) throw Error("[config] the router's function {} is not supported", function);
    return;
  }
  const std::string name = config.string("scoring_func", "").value_or("");
  if (name == "softmax") router.score = RouterScore::kSoftmax;
  // dots.llm1 has the name of its way to choose in this place.
  if (name == "sigmoid" || name == "noaux_tc") router.score = RouterScore::kSigmoid;
  if (!name.empty() && name != "softmax" && name != "sigmoid" && name != "noaux_tc")
    throw Error("[config] the router's function '{}' is not supported", name);
}

// Some configs name the kind of each layer, or have a number for each. False: this one does not.
bool name_layers(Hparams& hp, const Config& config) {
  const std::vector<std::string> types = config.strings("mlp_layer_types");
  const Json* freq = find(config.json(), "moe_layer_freq");
  const std::vector<double> marks =
      freq && freq->is_array() ? config.numbers("moe_layer_freq", "") : std::vector<double>{};
  if (types.empty() && marks.empty()) return false;
  const size_t n = types.empty() ? marks.size() : types.size();
  if (n != static_cast<size_t>(hp.layers)) {
    throw Error("[config] {} has {} entries for {} layers", types.empty() ? "moe_layer_freq" : "mlp_layer_types", n,
                hp.layers);
  }
  hp.experts.layers.clear();
  for (size_t i = 0; i < n; ++i) hp.experts.layers.push_back(types.empty() ? marks[i] != 0 : types[i] == "sparse");
  return true;
}

void read_layers(Hparams& hp, const Config& config) {
  if (config.is_gguf()) {
    // Its numbers do not tell every order of layers; its tensors do.
    hp.experts.layers.clear();
    for (int i = 0; i < hp.layers; ++i)
      hp.experts.layers.push_back(config.has_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", i)));
    return;
  }
  if (name_layers(hp, config)) return;
  const int dense = count_of(config, {"first_k_dense_replace", "num_dense_layers"}, "", 0, hp.layers, 0);
  const int step = count_of(config, {"decoder_sparse_step", "moe_layer_freq"}, "", 1, 4096, 1);
  std::vector<bool>& layers = hp.experts.layers;
  layers.assign(static_cast<size_t>(hp.layers), false);
  // Qwen counts from 1, DeepSeek from 0: they differ where the step is more than 1.
  const int from = config.number("decoder_sparse_step", "") ? 1 : 0;
  for (int i = dense; i < hp.layers; ++i) layers[static_cast<size_t>(i)] = (i + from) % step == 0;
  for (const double i : config.numbers("mlp_only_layers", "")) {
    if (i >= 0 && i < hp.layers) layers[static_cast<size_t>(i)] = false;
  }
}

}  // namespace

void check_experts(const ExpertParams& e) {
  const RouterSpec& router = e.router;
  if (e.used < 1 || e.used > e.count) throw Error("[config] a row asks for {} of {} experts", e.used, e.count);
  if (e.used > kMostExpertsUsed || e.count > kMostExperts) {
    throw Error("[config] {} of {} experts, at most {} of {} are supported", e.used, e.count, kMostExpertsUsed,
                kMostExperts);
  }
  if (router.score == RouterScore::kSparsemixer && e.used != 2)
    throw Error("[config] this router chooses 2 experts, {} are asked for", e.used);
  if (router.groups < 1 || e.count % router.groups != 0)
    throw Error("[config] {} experts cannot be divided into {} groups", e.count, router.groups);
  if (router.groups_used < 1 || router.groups_used > router.groups)
    throw Error("[config] a row asks for {} of {} groups of experts", router.groups_used, router.groups);
  if (e.used > router.groups_used * (e.count / router.groups)) {
    throw Error("[config] a row asks for {} experts of {} groups that have {} each", e.used, router.groups_used,
                e.count / router.groups);
  }
}

void read_experts(Hparams& hp, const Config& config) {
  ExpertParams& e = hp.experts;
  e.count = count_of(config, {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"},
                     "expert_count", 1, 1 << 16);
  e.used = count_of(config, {"num_experts_per_tok", "moe_k", "moe_topk", "num_experts_per_token"}, "expert_used_count",
                    0, 1 << 16);
  e.ffn = count_of(config, {"moe_intermediate_size"}, "expert_feed_forward_length", 1, 1 << 22, hp.ffn);
  const int shared = count_of(config, {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"},
                              "expert_shared_count", 0, 1 << 10, 0);
  e.shared_ffn = count_of(config, {"shared_expert_intermediate_size", "shared_intermediate_size"},
                          "expert_shared_feed_forward_length", 0, 1 << 22, shared * e.ffn);
  RouterSpec& router = e.router;
  read_score(router, config);
  router.groups = count_of(config, {"n_group"}, "expert_group_count", 0, 1 << 16, 1);
  router.groups_used = count_of(config, {"topk_group"}, "expert_group_used_count", 0, 1 << 16, router.groups);
  if (config.is_gguf() && router.groups == 0) router.groups = router.groups_used = 1;
  router.renormalize = config.boolean("norm_topk_prob", "expert_weights_norm").value_or(router.renormalize);
  router.scale = number_of(config, {"routed_scaling_factor", "route_scale"}, "expert_weights_scale", 1);
  if (config.is_gguf() && router.scale == 0) router.scale = 1;
  read_layers(hp, config);
  check_experts(e);
}

}  // namespace ingot
