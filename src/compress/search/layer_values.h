// The matrices of a layer as floats, for whoever runs it with some of them rounded: the model's own values, and what a
// format leaves of them. Floats, so that a run rounds nothing beside: what differs is the matrix alone.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "compress/layer_runner.h"
#include "compress/method.h"
#include "compress/model_tensors.h"

namespace ingot {

// Tensors that are rounded, and to what.
using TensorFormats = std::map<const ModelTensor*, Format>;

class LayerValues {
 public:
  // Tensors are those of a GgufModel of the same file. All must outlive it.
  LayerValues(const Model& model, const Importances& importances, ThreadPool& pool);

  // The matrices of a layer, or those outside of layers, in place of the ones before. Tables of more than kOwnValues
  // values are read as the model stores them.
  void load(const std::vector<const ModelTensor*>& tensors);
  // What a runner reads: the loaded tensors, those in `formats` rounded. Good until the next lookup() or load().
  MatrixLookup lookup(const TensorFormats& formats);

 private:
  static constexpr int64_t kOwnValues = int64_t{1} << 28;
  using Key = std::pair<const ModelTensor*, std::optional<Format>>;

  std::vector<float> read(const ModelTensor& tensor) const;
  std::vector<float> rounded(const ModelTensor& tensor, Format format) const;
  EncodedMatrix matrix(const ModelTensor& tensor, const std::vector<float>& values, int expert) const;

  const Model& model_;
  const Importances& importances_;
  ThreadPool& pool_;
  const std::unique_ptr<Rounder> nearest_ = nearest_rounder();
  std::vector<const ModelTensor*> tensors_;
  std::map<Key, std::vector<float>> values_;
};

// The sum of squared errors that a format leaves, times the importance of the column where it is known, by a sample of
// the rows that `reader` gives. Any thread.
double sampled_error(const ModelTensor& tensor, const RowReader& reader, Format format, const Importances& importances);

}  // namespace ingot
