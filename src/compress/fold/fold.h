// What is folded into a model's tensors before they are rounded: factors of rows and columns, and rotations, chosen so
// that the model stays the same function. Tensors are changed while they are read.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/layer_runner.h"
#include "compress/model_tensors.h"
#include "quant/rotation.h"

namespace ingot {

// Of a stored tensor, or of one expert of a stack. Factors come first: columns, rows; then rotations.
struct TensorFold {
  std::vector<float> cols;  // [cols] factors; empty: none. A vector's values are its columns
  std::vector<float> rows;  // [rows] factors; empty: none
  bool ones = false;        // a norm's: all values become 1
  float offset = 0;         // a norm's: directories hold its values less this
  // Each size() columns · Q; the rows from `left_first` on, `left_rows` of them, Qᵀ · each size() of them.
  std::shared_ptr<const Rotation> right, left;
  int64_t left_first = 0, left_rows = 0;
};

class Fold {
 public:
  // The changes of one tensor, by all names that files may have it under: the first is that of this model.
  TensorFold& of(const std::vector<MatrixName>& names);

  // The head is to be a tensor of its own, beside the embedding of this name that it was.
  void untie(const std::string& embedding) { untied_ = embedding; }
  bool unties() const { return !untied_.empty(); }

  // Lets all tensors be read as they are changed, and marks them. `offsets`: norms are read without their offset, as
  // directories have them. Throws Error naming a tensor that is not there, or in another form than the model reads it.
  // Where the head is untied it comes last, as `head`.
  void apply(std::vector<ModelTensor>& tensors, bool offsets, const std::string& head) const;

 private:
  std::map<std::pair<std::string, int>, size_t> index_;
  std::deque<TensorFold> folds_;    // references to them stay
  std::vector<std::string> names_;  // of each, for errors
  std::string untied_;
};

}  // namespace ingot
