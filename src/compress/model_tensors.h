// The tensors of a model as they go into a GGUF file: names, shapes, order of rows, and their values row by row,
// whatever files they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compress/mix.h"
#include "quant/format.h"
#include "weights/hparams.h"
#include "weights/model_files.h"

namespace ingot {

struct Architecture;
class Fold;
struct GgufTarget;
class GgufWriter;
class Weights;
enum class ExpertPart : uint8_t;

// The number behind the layers' prefix; -1: the tensor lies in no layer.
int layer_number(std::string_view name, std::string_view prefix);

// A tensor that is being read.
struct RowReader {
  // Rows [first, first + rows) as floats. Any thread, several at once.
  std::function<void(int64_t first, int64_t rows, float* out)> read;
  // The whole tensor as it is stored, where the rows that are wanted lie there in order; null: they do not.
  const std::byte* stored = nullptr;
  // The tensor's part of a mapped file is given back to the system.
  std::function<void()> done;
};

struct ModelTensor {
  std::string name;       // GGUF's, or that of the directory
  std::string canonical;  // as methods and importances know it
  int layer = -1;
  std::vector<int64_t> shape;       // row-major
  std::optional<Format> stored;     // nothing: a type that is none of ours
  uint32_t stored_type = 0;         // of a GGUF file, or as_stored
  bool as_stored = false;           // of a directory: open() gives it whole, as a GGUF file has this type
  int64_t stored_bytes = 0;         // in the model's files
  bool changed = false;             // read() gives other values than are stored (fold/fold.h)
  std::function<RowReader()> open;  // one thread

  int64_t cols() const { return shape.back(); }
  int64_t rows() const;
  int64_t expert_rows() const { return shape.size() > 2 ? shape[shape.size() - 2] : rows(); }
};

// A model whose tensors and metadata can be written as GGUF.
class GgufModel {
 public:
  // `path` as ModelFiles::open takes it. Throws Error for an architecture that has no known place in GGUF.
  explicit GgufModel(const std::string& path);
  ~GgufModel();

  const std::vector<ModelTensor>& tensors() const { return tensors_; }
  // Before anything else is asked. Throws Error.
  void fold(const Fold& fold);
  const MixModel& mix_model() const { return mix_model_; }
  const ModelFiles& files() const { return files_; }
  // All metadata but what depends on the formats (general.file_type, general.quantization_version).
  void write_metadata(GgufWriter& writer) const;
  // What the file cannot say, for people: a window that GGUF's architecture has none for.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Throws Error naming the number where a GGUF file that was written of this model would be read as another.
  void check_numbers(const ModelFiles& written) const;

 private:
  void read_gguf();
  void read_safetensors();
  void add_stored(const std::string& name);
  void add_experts(const std::string& path, int layer);
  void add_expert_bias(const std::string& path, ExpertPart part, int64_t rows, const std::string& name);
  void add_halves(const std::string& name, int layer);
  void add_up_projection(const std::string& name, int layer);
  Format format_of_experts(const std::string& path, ExpertPart part, int64_t rows, int64_t cols);
  void add_rope_factors();
  void add_vector(const std::string& name, std::vector<float> values);

  ModelFiles files_;
  const Architecture* arch_ = nullptr;  // of safetensors
  const GgufTarget* target_ = nullptr;  //   and what it becomes
  Hparams hp_;
  std::unique_ptr<Weights> weights_;
  std::vector<ModelTensor> tensors_;
  MixModel mix_model_;
  std::vector<std::string> warnings_;
};

}  // namespace ingot
