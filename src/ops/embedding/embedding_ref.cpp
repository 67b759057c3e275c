#include "ops/embedding/embedding.h"

namespace ingot::ref {

void run(const Embedding& op, Ctx& ctx) {
  const Weight& w = op.table;
  for (int64_t t = 0; t < ctx.rows(op.out); ++t) {
    const size_t row = static_cast<size_t>(t);
    int64_t index = op.by == Embedding::By::kToken ? ctx.batch.token[row] : ctx.batch.position[row];
    if (index < 0 || index >= w.rows) index = 0;
    float* out = op.out.f32(t);
    format_decode(w.format, w.data + index * w.row_bytes, out, w.cols);
    if (w.scale == nullptr) continue;
    for (int64_t k = 0; k < w.cols; ++k)
      out[k] = out[k] * w.scale[index / w.scale_rows * w.scale_stride + k / w.scale_cols];
  }
}

}  // namespace ingot::ref
