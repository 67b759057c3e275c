// Which activations are bf16 on a GPU. Decided once, from the formats of the weights: those that a linear with BF16
// weights, or attention over a BF16 cache, reads as they are and rounds to bf16 anyway.
#pragma once

#include "graph/graph.h"

namespace ingot::cuda {

// While it lives, every value is bf16 that only BF16 linears without a norm of their input read as x, or attention as
// q, and only BF16 linears or attention write. All else stays f32: the residual stream, what norms read, logits, named
// outputs. Before plan().
class LoweredTypes {
 public:
  explicit LoweredTypes(Graph& graph);
  ~LoweredTypes();
  LoweredTypes(const LoweredTypes&) = delete;
  LoweredTypes& operator=(const LoweredTypes&) = delete;

  int count() const { return count_; }

 private:
  Graph& graph_;
  int count_ = 0;
};

}  // namespace ingot::cuda
