// How a tensor's values become codes of a format: the seam between the work of compressing a model (quantize.h) and
// the methods. A method is a Rounder; what it must know of the model's inputs it has gathered before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "quant/format.h"
#include "quant/stored_scales.h"

namespace ingot {

// A slab of whole rows of one matrix.
struct TensorJob {
  std::string_view name;  // canonical, of the whole tensor: "model.layers.3.mlp.down_proj.weight"
  int layer = -1;         // -1: in none, as embedding and head
  int expert = -1;        // of a tensor that stacks experts; -1: it stacks none
  Format format = Format::kF32;
  int64_t first_row = 0;              // of this slab in its matrix (of its expert)
  int64_t rows = 0, cols = 0;         // of the slab
  std::span<const float> values;      // [rows, cols], all finite
  const float* importance = nullptr;  // [cols] mean squares of the inputs; null: none are known
  int64_t group = 0;  // so many values of a row are encoded as a row of their own; 0: the format's own groups
  ScaleType scales = ScaleType::kF32;  // what the scales of int4, int4_asym and int8 are stored in: they are such

  int64_t segment() const { return group > 0 ? group : cols; }
  int64_t row_bytes() const { return cols / segment() * format_row_bytes(format, segment()); }
};

// What was encoded of a tensor that is finished, by its canonical name: its rows in the order of TensorJob, or nothing
// where the tensor is not stored in a quantized format.
struct EncodedTensor {
  Format format = Format::kF32;
  int64_t rows = 0, cols = 0;
  std::span<const std::byte> bytes;
};
using EncodedLookup = std::function<EncodedTensor(std::string_view name)>;

class Rounder {
 public:
  virtual ~Rounder() = default;

  // Before the first round() of a layer, and after the last: layers come in order, those outside of layers (-1) last.
  // A layer that an earlier run finished comes with both calls and without a round() between them. One thread.
  virtual void prepare(int layer) { static_cast<void>(layer); }
  virtual void finish(int layer, const EncodedLookup& encoded) { static_cast<void>(layer), static_cast<void>(encoded); }

  // A layer whose inputs would take too much memory together is prepared in parts: prepare() begins with the first, and
  // after round() of all that was due this prepares the next one, or says that there is none. One thread.
  virtual bool prepare_next(int layer) { return static_cast<void>(layer), false; }
  // Whether a matrix may come to round() in the part that was prepared last.
  virtual bool due(std::string_view tensor, int expert) const {
    return static_cast<void>(tensor), static_cast<void>(expert), true;
  }

  // Whether all tensors of a layer must come to round() though an earlier run finished some of them: asked before
  // prepare(). What they become is the same.
  virtual bool again(int layer) const { return static_cast<void>(layer), false; }

  // Encodes job.values into `out`, job.rows rows of job.row_bytes() each. Any thread, several at once; the bytes
  // depend on the job alone.
  virtual void round(const TensorJob& job, std::span<std::byte> out) const = 0;
};

// Each value to the grid whose scales fit best, by the importances of columns where the job has them: the methods rtn
// and imatrix.
std::unique_ptr<Rounder> nearest_rounder();

// Mean squares of a matrix's inputs, [cols], by its canonical name and its expert; empty where nothing is known.
using Importances = std::function<std::span<const float>(std::string_view name, int expert)>;

}  // namespace ingot
