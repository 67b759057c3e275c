// Who writes and who reads the values of a model's graph, and the stored rows behind its matrices: what is asked
// before something is folded into them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compress/fold/fold.h"
#include "compress/layer_runner.h"
#include "models/model.h"

namespace ingot {

// A matrix of the graph, and where its rows lie in the stored one (those of v in a fused qkv).
struct FoldMatrix {
  std::vector<MatrixName> names;
  Weight weight;
  Weight bias;  // or none
  int64_t first = 0, stored_rows = 0;
};

class GraphValues {
 public:
  // `model` was loaded with layer_options() and outlives this.
  explicit GraphValues(const Model& model);

  struct Reading {
    size_t node;
    Tensor tensor;
  };

  std::vector<Node>& nodes() { return nodes_; }
  const Model& model() const { return model_; }
  // The node that writes the value; nothing: none does.
  std::optional<size_t> writer(const Tensor& t) const;
  // Those who read (or change in place) some of its columns.
  std::vector<Reading> readers(const Tensor& t) const;
  bool only_reader(const Tensor& t, size_t node) const;
  // What writes the same layer of the cache.
  KvWrite* write_of(const Attention& attention);

  // Throws Error where its rows cannot be found in the stored matrix.
  FoldMatrix matrix(const Weight& weight, const Weight& bias = {}) const;
  bool stored(const Weight& weight) const { return model_.weights->has(weight.name); }

 private:
  const Model& model_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Reading>> readers_;   // by value
  std::vector<std::optional<size_t>> writers_;  // by value
};

}  // namespace ingot
