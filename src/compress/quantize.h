// A model made smaller, from file to file: what `ingot quantize` does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compress/method.h"

namespace ingot {

class Fold;
struct KvScales;

struct QuantizeOptions {
  std::string model;           // a path that ModelFiles::open takes
  std::string out;             // "*.gguf": one file for llama.cpp; else a directory of safetensors
  std::string format;          // a mix (mix.h), or one of directory_formats()
  std::string method = "rtn";  // for the recipe
  std::vector<std::pair<std::string, std::string>> tensors = {};  // --tensor PATTERN=FORMAT, in the order given
  bool pure = false;                                              // every matrix in the format's own type
  bool requantize = false;  // matrices of less than 8 bits a value may be rounded again
  int threads = 1;
  Importances importances = {};
  std::shared_ptr<const Fold> fold = {};    // what is changed before it is rounded, without changing the function
  std::shared_ptr<const KvScales> kv = {};  // for the metadata; null: the model's own, where it has any
  std::string statistics = {};              // what importances come from, for the recipe: a hash
  std::string text_hash = {};               // sha256 of the text that the model was run with; empty: none
  std::string search = {};                  // what a search found, for the metadata: JSON
  std::function<bool(int64_t done, int64_t total, int64_t skipped)> progress = {};  // false: stop
};

struct QuantizeSummary {
  struct Class {
    std::string name;    // "attn_v"
    std::string format;  // "q6_k"
    int64_t tensors = 0, values = 0, bytes = 0;
  };
  std::vector<Class> classes;  // in the order of the model
  int64_t values = 0, bytes = 0, source_bytes = 0;
  int fallbacks = 0;  // matrices whose rows are no whole blocks of the format of choice
  std::vector<std::string> notes;
  double seconds = 0;  // taken, or of a plan estimated
  bool resumed = false, stopped = false;

  double bits() const { return values > 0 ? 8.0 * static_cast<double>(bytes) / static_cast<double>(values) : 0; }
};

// Sizes and time alone; nothing is written. Throws Error as quantize().
QuantizeSummary plan_quantize(const QuantizeOptions& options, const Rounder& rounder);

// What each matrix that is rounded becomes, by its canonical name. Throws Error as quantize().
struct PlannedFormat {
  Format format = Format::kF32;
  int64_t group = 0;  // as TensorJob has it
};
using PlannedFormats = std::map<std::string, PlannedFormat>;
PlannedFormats planned_formats(const QuantizeOptions& options);

// Writes options.out. Throws Error for what cannot be written so: one line that names it.
QuantizeSummary quantize(const QuantizeOptions& options, Rounder& rounder);

}  // namespace ingot
