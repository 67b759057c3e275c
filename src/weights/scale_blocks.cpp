#include "weights/scale_blocks.h"

#include <cmath>

#include "base/error.h"

namespace ingot {

int64_t scale_block(const std::string& name, int64_t values, int64_t blocks) {
  if (blocks == 1) return values;
  int64_t size = 1;
  while (size < values && (values + size - 1) / size > blocks) size *= 2;
  if (blocks < 1 || (values + size - 1) / size != blocks)
    throw Error("[weights] '{}' has {} blocks for {} values", name, blocks, values);
  return size;
}

void check_scales(const std::string& name, Format format, int64_t of_matrix, std::span<const float> values) {
  if (format_block(format) == 1) return;
  if (format != Format::kNVFP4 || of_matrix != 1)
    throw Error("[weights] '{}' has {} scales for a matrix in {}", name, of_matrix, format_name(format));
  for (const float value : values)
    if (!std::isfinite(value) || value <= 0) throw Error("[weights] '{}': a scale is {}", name, value);
}

}  // namespace ingot
