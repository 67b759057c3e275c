#include "weights/scale_blocks.h"

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

}  // namespace ingot
