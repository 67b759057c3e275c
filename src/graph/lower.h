// Which activations of a program are bf16. Decided once, from the formats of the weights: those that a linear with
// weights of any format but F32, or attention over a BF16 cache, reads as they are and rounds to bf16 anyway.
#pragma once

#include "graph/program.h"

namespace ingot {

// Every value becomes bf16 that only ops which say so (each_bf16() in traits.h) read and write. All else stays f32: the
// residual stream, what norms read, logits, named outputs. Before plan().
void lower(Program& program);

}  // namespace ingot
