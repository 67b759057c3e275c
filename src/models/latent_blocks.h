// Latent attention (MLA), which models with and without experts share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/blocks.h"

namespace ingot {

class Config;

// Reads hp.latent, the rope of its rotary part and the scale of its scores: 1 / sqrt(nope + rope), times the square of
// yarn's mscale_all_dim. Throws Error where a size is missing or does not fit.
void configure_latent(Hparams& hp, const Config& config);

// In absorbed form at every number of rows: queries go through the heads' key projections into the space of the latent,
// meet the cache there, and what they read goes through the heads' value projections. Then the output projection.
Tensor latent_attend(Build& b, const Tensor& x, const Names& w, const Hparams& hp, int i);

// The layer of DeepSeek, which others share: latent attention, then experts with a shared one, or an MLP. A sigmoid
// router has a bias that chooses. Layers behind the last, which predict further tokens, are not read.
Tensor deepseek_layer(Build& b, Tensor x, const Hparams& hp, int i);

// GGUF names of these weights, for ArchNames::gguf_layer.
std::vector<std::pair<std::string, std::string>> latent_gguf_names();

}  // namespace ingot
