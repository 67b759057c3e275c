// Which format each tensor of a GGUF file gets: the mixes that llama.cpp gives names to (q4_k_m …), tensor by tensor as
// its own tool chooses, so that files of the same name have the same types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/format.h"

namespace ingot {

struct Mix {
  std::string_view name;  // "q4_k_m"
  Format base;            // what most matrices get
  uint32_t file_type;     // general.file_type
};

// By any of its names, in any case ("q4_k" is q4_k_m); nullptr where there is none.
const Mix* find_mix(std::string_view name);
std::vector<std::string> mix_names();

// What the choice depends on beside a tensor's own name and shape.
struct MixModel {
  std::string arch;  // general.architecture
  int layers = 0, heads = 0, kv_heads = 0, experts = 0;
};

struct MixTensor {
  std::string name;            // GGUF's: "blk.3.attn_v.weight"
  std::vector<int64_t> shape;  // row-major
};

struct MixOptions {
  bool pure = false;         // every matrix gets the base format
  bool importances = false;  // importances of columns are known: some choices differ
  // Patterns with '*', the first that fits decides; as many entries as tensors may be named by them.
  std::vector<std::pair<std::string, Format>> tensors = {};
};

struct MixChoice {
  std::optional<Format> format;  // nothing: the tensor is not for quantizing, it stays as it is
  bool fallback = false;         // the format of choice has blocks that do not divide the row
};

// Whether a tensor is a matrix that is quantized at all: no norm, router, bias or table of positions.
bool mix_quantizes(const MixTensor& tensor);

// The format of each tensor, whatever their order. Throws Error where the mix needs importances and has none.
std::vector<MixChoice> choose_mix(const Mix& mix, const MixModel& model, const std::vector<MixTensor>& tensors,
                                  const MixOptions& options);

// The format in place of `format` for rows of `cols`, where its blocks do not divide them.
Format format_that_fits(Format format, int64_t cols);

}  // namespace ingot
