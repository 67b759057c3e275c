// Which columns may be scaled with whom, read off a model's graph: the matrices that read one value, and the norm or
// the rows of a matrix that can take what their columns are multiplied by the other way round.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compress/fold/graph_values.h"

namespace ingot {

struct ScaleGroup {
  std::vector<FoldMatrix> readers;  // all that read the value
  // Who gives it: a norm, or rows of a matrix (up of a gated MLP, v through attention).
  Weight norm;       // none: the matrix
  Weight norm_bias;  // or none
  FoldMatrix source;
  int64_t source_first = 0;      // of source.weight's rows
  std::vector<int32_t> channel;  // of each column, the source's value that it is: several with grouped heads
  int64_t channels = 0;
};

// Groups of all layers, in order. Values that come from nobody who can be scaled (behind GELU, in the latent cache)
// have none. Throws Error naming the architecture where the residual stream is read with no norm before: there is
// nothing that its columns could be scaled with. `method` is for the error.
std::vector<ScaleGroup> find_scale_groups(const Model& model, std::string_view method);

// Multiplies the readers' columns by `scales`, one for each channel, and what gives them by the inverse. Where that is
// a norm, scales are changed a little, so that 16 bits hold the norm exactly; they are then what was folded.
void fold_scales(const ScaleGroup& group, const Model& model, std::span<float> scales, Fold& fold);

}  // namespace ingot
