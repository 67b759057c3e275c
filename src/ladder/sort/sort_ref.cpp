#include <algorithm>

#include "ladder/sort/sort.h"

namespace ingot::ref {

void run(const Sort& op, Ctx&) {
  const auto* keys = reinterpret_cast<const uint32_t*>(op.keys.data);
  auto* out = reinterpret_cast<uint32_t*>(op.out.data);
  std::copy_n(keys, op.keys.cols, out);
  std::sort(out, out + op.keys.cols);
}

}  // namespace ingot::ref
