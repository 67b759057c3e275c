// Which tensors compression changed most: the matrices of a model beside those of the model that it was made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/model.h"
#include "quant/format.h"

namespace ingot {

class ThreadPool;

struct TensorError {
  std::string name;  // the model's
  Format format = Format::kF32;
  double bits = 0;   // of memory for each value, with the scales beside them
  double error = 0;  // Σ (w − w')² / Σ w², w the teacher's; infinite where a value is no number
};

struct WorstTensors {
  std::vector<TensorError> tensors;  // the largest error first; those without one are left out
  int64_t compared = 0;              // tensors
  int64_t alone = 0;                 // matrices of the model of which the teacher has none of the same shape
  std::string skipped;               // why none were compared; empty: they were
};

// Matrices belong together by the place in the graph that reads them, so that the tools which wrote the files may
// name, stack and order them as they like. Of each up to 256 rows count, evenly spread. What lies in one tensor of
// the file (q, k and v of some) is told as one, and a tied head once. Skipped are models whose recipe says that weights
// were changed on purpose (awq, smooth, rotate), and those of which most matrices are not the teacher's at all.
// REQUIRES: both loaded with tensor_error_options(), and no engine made of them, which gives weights back.
WorstTensors worst_tensors(const Model& teacher, const Model& model, ThreadPool& pool, size_t most = 10);

ModelOptions tensor_error_options();

}  // namespace ingot
