// The method gptq: layers are compressed in order, and each sees its inputs as the layers before it give them once they
// are compressed. Scales are fitted first, by the squares of the inputs; then codes are chosen with feedback
// (quant/gptq.h).
//
// Memory: one layer's packed weights and its codes, 4 bytes for each entry of XᵀX of the layer's inputs and 8 for the
// largest of them while it is factored, and a private file of 2 bytes for each value of the hidden states, which is
// also the point from which the same command goes on after it was killed.
#pragma once

#include <memory>
#include <string>

#include "compress/calibrate.h"
#include "compress/method.h"
#include "quant/gptq.h"

namespace ingot {

struct GptqSetup {
  std::string model;  // a path
  CalibrationText text;
  std::string state;        // path of the private file
  std::string recipe = {};  // all that the encoded layers depend on, beside model and text
  // The encoded rows of q and k lie in the order of a GGUF file, which some architectures rotate.
  bool gguf_order = false;
  int threads = 1;
  GptqOptions options = {};
  WorkProgress progress = {};  // of a layer's two passes
};

// Throws Error: too little text for the columns of a matrix, a model whose layers cannot be run one by one.
std::unique_ptr<Rounder> gptq_rounder(GptqSetup setup);

}  // namespace ingot
