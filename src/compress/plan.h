// What is made of a model: the files, where each tensor lies in them, and what becomes of it. A plan for GGUF and one
// for a directory are made in a file each; quantize.cpp carries them out. Inside compress/ only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compress/quantize.h"
#include "compress/work.h"

namespace ingot {

class QuantizePlan {
 public:
  virtual ~QuantizePlan() = default;

  bool directory = false;
  std::vector<PartSpec> files;
  std::vector<WorkTensor> tensors;
  QuantizeSummary summary;  // without seconds
  std::string identity;     // of what is made: model, recipe

  // Headers and small files. Throws Error where the result could not be read.
  virtual void write_heads(const PartFiles& parts) const = 0;
};

std::unique_ptr<QuantizePlan> plan_gguf(const QuantizeOptions& options);
std::unique_ptr<QuantizePlan> plan_directory(const QuantizeOptions& options);
std::vector<std::string> directory_formats();

// What `options` ask for, as one line of JSON: the same line, the same bytes.
std::string recipe_text(const QuantizeOptions& options);
// A hash of the headers and sizes of a model's files.
std::string source_hash(const ModelFiles& files);
// The same with the times of change: what a killed run must find again to go on.
std::string source_state(const ModelFiles& files);

// Throws Error where the matrix must not be rounded again without --requantize. `name`: of the format, where it is
// another than `to`'s.
void check_requantize(const ModelTensor& tensor, Format to, const QuantizeOptions& options, std::string_view name = {});

// Adds a tensor to its class in the summary.
void count_tensor(QuantizeSummary& summary, const ModelTensor& tensor, std::string_view format, int64_t bytes);

}  // namespace ingot
