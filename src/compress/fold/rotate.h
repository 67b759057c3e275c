// The method rotate: the residual stream of a model turned by an orthogonal matrix (quant/rotation.h), and the values
// of each head by another, both folded into the matrices that write and read them. Weights of norms go into the
// matrices behind them, and the head becomes a matrix of its own where it was the embedding.
#pragma once

#include <cstdint>
#include <memory>

#include "compress/fold/fold.h"

namespace ingot {

struct Model;

// `model` was loaded with layer_options(). Throws Error naming the architecture, and what in its graph forbids it: a
// norm with weights between a matrix and the stream (Gemma 2 and 3, OLMo 2), a layer norm.
std::shared_ptr<const Fold> rotation_fold(const Model& model, uint64_t seed);

}  // namespace ingot
