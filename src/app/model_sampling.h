// How a model's publisher samples.
#pragma once

#include "ops/sample/sampling_params.h"

namespace ingot {

struct ModelFiles;

// generation_config.json, or general.sampling.* of GGUF. Where it says nothing: temperature 0.7, top-k 40, top-p 0.9.
SamplingParams model_sampling(const ModelFiles& files);

}  // namespace ingot
