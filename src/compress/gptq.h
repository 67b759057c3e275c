// The method gptq: layers are compressed in order, and each sees its inputs as the layers before it give them once they
// are compressed. Scales are fitted first, by the squares of the inputs; then codes are chosen with feedback
// (quant/gptq.h).
//
// Memory: one layer's packed weights and its codes, 12 bytes for each entry of XᵀX of its widest input, and a private
// file of 2 bytes for each value of the hidden states, which is also the point from which the same command goes on
// after it was killed. The sums of all inputs that fit those bytes are made in one pass over the text; a layer of many
// experts takes several. Packed weights are given back before the sums are factored, which takes 8 bytes an entry more.
#pragma once

#include <functional>
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
  bool head = false;  // the head is rounded, too: by XᵀX, or where it is the embedding by the squares of its inputs
  int threads = 1;
  GptqOptions options = {};
  // At least so many bytes of sums are made in a pass.
  int64_t pass_bytes = int64_t{256} << 20;
  WorkProgress progress = {};  // of a layer's two passes; what it throws ends the run, which the same command goes on
  // Called with the rows that each input of a layer had, when it is known.
  std::function<void(const LayerInput& input, int64_t rows)> counted = {};
};

// Throws Error: too little text for the columns of a matrix (before anything is written), a model whose layers cannot
// be run one by one.
std::unique_ptr<Rounder> gptq_rounder(GptqSetup setup);

}  // namespace ingot
