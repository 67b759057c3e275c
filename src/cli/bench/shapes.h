// Shapes of published models for benchmarks with random weights.
#pragma once

#include <string>
#include <vector>

#include "weights/hparams.h"
#include "weights/source.h"

namespace ingot {

// "llama-3.1-8b", "smollm2-135m" … Throws Error that lists the known names.
Hparams shape_by_name(const std::string& name);
std::vector<std::string> shape_names();

// Which format each weight of a random model gets: one format for all ("q8_0", "bf16", "fp8" …), or the mixture
// "q4_k_m": Q4_K with Q6_K for the head and for v and down in the layers that suffer most.
// Throws Error that lists the known names.
FormatChoice formats_by_name(const std::string& name, const Hparams& hp);

}  // namespace ingot
