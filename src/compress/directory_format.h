// What a matrix becomes in a directory of safetensors: the tensors that stand for it, and how a slab of its rows fills
// them. The layouts are those of compressed-tensors, which vLLM and transformers read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compress/method.h"
#include "files/json.h"
#include "files/part_files.h"
#include "files/safetensors_writer.h"

namespace ingot {

struct DirectoryFormat {
  enum class Kind : uint8_t { kFloat, kInt4, kInt8, kFp8, kFp8Block };
  std::string_view name;  // "int4_asym_g64"
  Kind kind = Kind::kFloat;
  Format format = Format::kBF16;  // kFloat: the values' own
  int64_t group = 0;              // int4: values that share a scale
  bool zero_points = false;       // int4
};

// In any case; nullptr where there is none.
const DirectoryFormat* find_directory_format(std::string_view name);

// The format for rows of `cols`: itself, one of smaller groups, or nothing where none fits.
std::optional<DirectoryFormat> format_for_rows(const DirectoryFormat& format, int64_t cols);

// Scales are stored in the dtype of the model's other tensors, in which they are also fitted.
std::string_view scale_dtype(ScaleType type);

// The tensors that stand for the matrix "module.weight" of `rows` × `cols`. The first holds the rows.
std::vector<SafeTensorSpec> stored_parts(const DirectoryFormat& format, const std::string& module, int64_t rows,
                                         int64_t cols, ScaleType scales);

// Rows of a slab are a multiple of this.
int64_t slab_multiple(const DirectoryFormat& format);

// Rounds a slab and writes what it becomes into the parts. Any thread.
void store_slab(const DirectoryFormat& format, const TensorJob& job, std::span<float> values, const Rounder& rounder,
                ScaleType scales, const PartItem& parts, const PartFiles& files);

// Its entry of quantization_config.config_groups, for these targets.
JsonObject config_group(const DirectoryFormat& format, JsonArray targets);
// "pack-quantized", "int-quantized" or "float-quantized".
std::string_view compression_name(const DirectoryFormat& format);

}  // namespace ingot
