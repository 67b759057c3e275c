#include "ladder/q4_linear/q4_operands.h"

#include <algorithm>

#include "base/check.h"
#include "matmul/cpu/kernels.h"

namespace ingot::cpu {

int64_t q4_expanded_bytes(const Q4Operands& o, int64_t panels) {
  const PanelKernels& k = *kernels().panels;
  const int64_t bytes =
      k.run_pieces != nullptr ? k.piece_bytes(o.packed.kind, panels) : expanded_bytes(o.packed, panels);
  return (bytes + 63) / 64 * 64;
}

int64_t q4_scratch_bytes(const Q4Operands& o, int64_t count) {
  const int64_t n = (count + kPanelRows - 1) / kPanelRows;
  const int64_t tile = kernels().panels->tile_rows, rows = (o.rows + tile - 1) / tile * tile;
  const int64_t many = q4_expanded_bytes(o, n) + n * kPanelRows * rows * 4;
  return std::max(many, o.weight.cols * 4);
}

void copy_q4_sums(const Q4Operands& o, const float* sums, int64_t stride, int64_t first, int64_t count, float* out) {
  for (int64_t t = 0; t < o.rows; ++t)
    std::copy(sums + t * stride, sums + t * stride + count, out + t * o.weight.rows + first);
}

Q4Operands::Q4Operands(const Weight& w, const PackedWeight& p, const float* values, int64_t n)
    : weight(w), packed(p), x(values), rows(n) {
  CHECK(w.format == Format::kQ4_0 && p.kind == PanelKind::kQ4, "format {}", format_name(w.format));
  const int64_t cols = w.cols;
  q_.resize(static_cast<size_t>(n * cols));
  wide_.resize(q_.size());
  blocks_.resize(static_cast<size_t>(n * cols / kPanelBlock));
  const PanelKernels& k = *kernels().panels;
  for (int64_t t = 0; t < n; ++t) {
    XRow row{};
    row.q = q_.data() + t * cols;
    row.wide = wide_.data() + t * cols;
    row.blocks = blocks_.data() + t * cols / kPanelBlock;
    row.values = x + t * cols;
    k.quantize(row.values, cols, q_.data() + t * cols, wide_.data() + t * cols,
               blocks_.data() + t * cols / kPanelBlock);
    x_values.push_back(row.values);
    x_rows.push_back(row);
  }
  if (k.pack_tile == nullptr) return;
  const int64_t bytes = (k.tile_bytes(cols) + 63) / 64 * 64;
  tiles_ = Memory((n + k.tile_rows - 1) / k.tile_rows * bytes);
  for (int64_t t = 0; t < n; t += k.tile_rows) {
    const int64_t some = std::min(k.tile_rows, n - t);
    std::byte* tile = tiles_.data() + t / k.tile_rows * bytes;
    k.pack_tile(&x_rows[static_cast<size_t>(t)], some, cols, false, tile);
    for (int64_t i = t; i < t + some; ++i) x_rows[static_cast<size_t>(i)].tile = tile;
  }
}

}  // namespace ingot::cpu
