#include "compress/gguf_experts.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "compress/gguf_keys.h"

namespace ingot {
namespace {

// What llama.cpp reads of an architecture's experts beside their number; what is left out is fixed there.
struct ExpertKeys {
  std::string_view arch;
  bool shared_count = false;   // the width of the shared MLP in experts
  bool shared_length = false;  //   in values
  bool router = false;         // which function, whether divided by the sum, times which scale
  bool dense_first = false;    // how many layers without experts come first
  bool interleaved = false;    // every how many layers has them
  bool any_layers = false;     // the tensors tell
};

constexpr std::array<ExpertKeys, 16> kKeys = {{
    {.arch = "llama", .any_layers = true},
    {.arch = "qwen2moe", .shared_length = true, .any_layers = true},
    {.arch = "qwen3moe", .any_layers = true},
    {.arch = "olmoe", .any_layers = true},
    {.arch = "granitemoe", .shared_length = true},
    {.arch = "gpt-oss"},
    {.arch = "glm4moe", .shared_count = true, .router = true, .dense_first = true},
    {.arch = "deepseek2", .shared_count = true, .router = true, .dense_first = true},
    {.arch = "dots1", .shared_count = true, .router = true, .dense_first = true},
    {.arch = "minimax-m2"},
    {.arch = "ernie4_5-moe", .shared_count = true, .shared_length = true, .dense_first = true, .interleaved = true},
    {.arch = "hunyuan-moe", .shared_count = true, .shared_length = true},
    {.arch = "afmoe", .shared_count = true, .router = true, .dense_first = true},
    {.arch = "phimoe"},
    {.arch = "llama4", .interleaved = true},
    {.arch = "mimo2", .any_layers = true},
}};

const ExpertKeys& keys_of(const std::string& arch) {
  for (const ExpertKeys& known : kKeys) {
    if (known.arch == arch) return known;
  }
  throw Error("[quantize] GGUF's '{}' has no experts", arch);
}

void write_shared(GgufKeys& keys, const ExpertKeys& known, const ExpertParams& e) {
  if (known.shared_length && e.shared_ffn > 0) keys.u32("expert_shared_feed_forward_length", e.shared_ffn);
  if (!known.shared_count) return;
  if (e.shared_ffn % e.ffn != 0) {
    if (known.shared_length) return;
    throw Error("[quantize] GGUF's '{}' cannot say that the shared expert is {} wide beside experts of {}", known.arch,
                e.shared_ffn, e.ffn);
  }
  keys.u32("expert_shared_count", e.shared_ffn / e.ffn);
}

void write_router(GgufKeys& keys, const ExpertKeys& known, const RouterSpec& router) {
  constexpr int kSoftmax = 1, kSigmoid = 2;
  if (known.router || known.arch == "minimax-m2")
    keys.u32("expert_gating_func", router.score == RouterScore::kSigmoid ? kSigmoid : kSoftmax);
  if (known.router) {
    keys.flag("expert_weights_norm", router.renormalize);
    keys.f32("expert_weights_scale", router.scale);
  }
  if (router.groups > 1) {
    keys.u32("expert_group_count", router.groups);
    keys.u32("expert_group_used_count", router.groups_used);
  }
}

// The layers with experts, as the first of them and as every how many.
void write_layers(GgufKeys& keys, const ExpertKeys& known, const ExpertParams& e) {
  if (known.any_layers) return;
  const auto first = static_cast<int>(std::ranges::find(e.layers, true) - e.layers.begin());
  const int layers = static_cast<int>(e.layers.size());
  // Those of llama4 begin with the first whose number the step divides, those of the others lie side by side.
  const int step = known.interleaved && !known.dense_first ? first + 1 : 1, from = known.dense_first ? first : 0;
  for (int i = 0; i < layers; ++i) {
    if (e.layers[static_cast<size_t>(i)] != (i >= from && (i + 1) % step == 0))
      throw Error("[quantize] GGUF's '{}' cannot say which layers have experts: layer {} is not as the others",
                  known.arch, i);
  }
  if (known.dense_first) keys.u32("leading_dense_block_count", first);
  if (known.interleaved) keys.u32("interleave_moe_layer_step", step);
}

}  // namespace

void write_gguf_experts(GgufKeys& keys, const std::string& arch, const Hparams& hp) {
  const ExpertParams& e = hp.experts;
  const ExpertKeys& known = keys_of(arch);
  keys.u32("expert_count", e.count);
  keys.u32("expert_used_count", e.used);
  keys.u32("expert_feed_forward_length", e.ffn);
  write_shared(keys, known, e);
  write_router(keys, known, e.router);
  write_layers(keys, known, e);
}

}  // namespace ingot
