// The inverse frequencies of rotary positions, for every kind of scaling that published models use.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ingot {

enum class RopeKind : uint8_t { kDefault, kLinear, kDynamic, kYarn, kLlama3, kLongrope };

// As configured by the model's file.
struct RopeSpec {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000;
  int head_dim = 0;
  double partial = 1;  // the share of each head that is rotated
  bool interleaved = false;
  double factor = 1;                     // how far the context is stretched (linear, dynamic, yarn, llama3, longrope)
  int original_context = 0;              // of the pretraining (yarn, llama3, longrope); 0: max_context
  int max_context = 0;                   // max_position_embeddings of the config (dynamic)
  double beta_fast = 32, beta_slow = 1;  // yarn: rotations that bound the ramp
  std::optional<double> attention_factor, mscale, mscale_all_dim;  // yarn; longrope: attention_factor
  double score_beta = 0;  // queries are multiplied by 1 + beta · log(1 + floor(position / original_context)); 0: not
  bool truncate = true;   // yarn: the ramp's ends are whole dimensions
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  std::vector<float> short_factor, long_factor;      // longrope: [rotary_dim / 2]
  std::vector<float> freq_factors;  // of a GGUF's rope_freqs tensor: divide the frequencies when not empty

  bool operator==(const RopeSpec&) const = default;
  // The sum forgives a share that was itself computed as rotary_dim / head_dim: 60 of 88 would give 59.
  int rotary_dim() const { return static_cast<int>(head_dim * partial + 1e-6); }
};

struct RopeFrequencies {
  std::vector<float> inv_freq;  // [rotary_dim / 2]
  float magnitude = 1;          // multiplies cos and sin
};

// The length-dependent kinds (dynamic, longrope) are chosen once, from the engine's context. Throws Error
// when the spec makes no sense: a number that is not finite or not positive where it must be, a list of
// factors of the wrong length.
RopeFrequencies rope_frequencies(const RopeSpec& spec, int context);

}  // namespace ingot
