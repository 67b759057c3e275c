// How far a model's predictions move when some of its matrices are rounded: many such variants at once, layer by layer.
// A variant is run from the first layer that it changes on; what lies before is computed once for all.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compress/search/layer_values.h"

namespace ingot {

// Chunks of tokens, and the rows of each whose predictions are compared.
struct DivergenceText {
  std::vector<std::span<const int32_t>> chunks;
  std::vector<int32_t> scored;
};

struct DivergenceSetup {
  LayerRunner& runner;
  LayerValues& values;
  ThreadPool& pool;
  const std::vector<ModelTensor>& tensors;  // of the model
  std::function<void(double done)> progress = {};
};

// The mean KLD of each variant from the model as it is. Memory: a chunk's states for each variant, a layer's values
// twice, and the scored rows × vocabulary floats. The same for any number of threads.
std::vector<double> divergences(const DivergenceSetup& setup, const DivergenceText& text,
                                const std::vector<TensorFormats>& variants);

}  // namespace ingot
