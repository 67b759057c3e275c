#include "quant/weight.h"

#include <algorithm>

#include "base/check.h"

namespace ingot {

void Weight::decode_row(int64_t n, float* out) const {
  CHECK(n >= 0 && n < rows, "row {} of {} in '{}'", n, rows, name);
  format_decode(format, row(n), out, cols);
  if (scale == nullptr) return;
  CHECK(scale_rows > 0 && scale_cols > 0, "scales of {} x {} in '{}'", scale_rows, scale_cols, name);
  const float* row_scale = scale + n / scale_rows * scale_stride;
  for (int64_t k = 0; k < cols; k += scale_cols) {
    const float s = row_scale[k / scale_cols];
    const int64_t end = std::min(cols, k + scale_cols);
    for (int64_t i = k; i < end; ++i) out[i] *= s;
  }
}

}  // namespace ingot
