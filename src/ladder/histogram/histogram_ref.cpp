#include <algorithm>

#include "ladder/histogram/histogram.h"

namespace ingot::ref {

void run(const Histogram& op, Ctx&) {
  auto* counts = reinterpret_cast<uint32_t*>(op.counts.data);
  std::fill_n(counts, 256, 0u);
  if (op.bytes) {
    for (int64_t i = 0; i < 4 * op.x.cols; ++i) ++counts[static_cast<size_t>(op.x.data[i])];
    return;
  }
  const auto* x = reinterpret_cast<const float*>(op.x.data);
  for (int64_t i = 0; i < op.x.cols; ++i) {
    const float bin = (x[i] - op.low) * op.scale;
    if (bin >= 0.0f && bin < 256.0f) ++counts[static_cast<size_t>(bin)];
  }
}

}  // namespace ingot::ref
