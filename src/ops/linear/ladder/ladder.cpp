#include "ops/linear/ladder/ladder.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "matmul/cpu/kernels.h"
#include "quant/formats/q4_0.h"

namespace ingot::cpu {

#if defined(__x86_64__)
float stored_dot_baseline(const std::byte* row, const XRow& x, int64_t cols);
float stored_dot_avx2(const std::byte* row, const XRow& x, int64_t cols);
float stored_dot_avx512(const std::byte* row, const XRow& x, int64_t cols);
#elif defined(__aarch64__)
float stored_dot_neon(const std::byte* row, const XRow& x, int64_t cols);
#else
float stored_dot_baseline(const std::byte* row, const XRow& x, int64_t cols);
#endif

namespace {

StoredDot stored_dot() {
#if defined(__aarch64__)
  return stored_dot_neon;
#else
#if defined(__x86_64__)
  const std::string_view set = kernels().name;
  if (set == "avx2") return stored_dot_avx2;
  if (set != "baseline") return stored_dot_avx512;
#endif
  return stored_dot_baseline;
#endif
}

// 1. By the format's definition, one value after the other.
void plain(const LadderOperands& o, int64_t first, int64_t count, float* out, std::byte*) {
  const int64_t cols = o.weight.cols;
  for (int64_t t = 0; t < o.rows; ++t) {
    for (int64_t n = first; n < first + count; ++n) {
      const auto* block = reinterpret_cast<const uint8_t*>(o.weight.row(n));
      float sum = 0;
      for (int64_t k = 0; k < cols; k += Q4_0::kBlock, block += Q4_0::kBytes) {
        float values[Q4_0::kBlock];
        Q4_0::decode(block, values);
        for (int64_t i = 0; i < Q4_0::kBlock; ++i) sum += values[i] * o.x[t * cols + k + i];
      }
      out[t * o.weight.rows + n] = sum;
    }
  }
}

// 2. Vectors of floats: a weight row is decoded once for all rows of x, and sums are 16 lanes.
void vectors(const LadderOperands& o, int64_t first, int64_t count, float* out, std::byte* scratch) {
  const int64_t cols = o.weight.cols;
  auto* values = reinterpret_cast<float*>(scratch);
  std::vector<const float*> x(static_cast<size_t>(o.rows));
  for (int64_t t = 0; t < o.rows; ++t) x[static_cast<size_t>(t)] = o.x + t * cols;
  for (int64_t n = first; n < first + count; ++n) {
    kernels().decoders[static_cast<size_t>(Format::kQ4_0)](o.weight.row(n), values, cols);
    const float* row = values;
    kernels().dots(x.data(), o.rows, &row, 1, cols, out + n, o.weight.rows);
  }
}

// 3. x as int8: products of integers, one float operation for each 32 of them. The weights as they are published.
void integers(const LadderOperands& o, int64_t first, int64_t count, float* out, std::byte*) {
  const StoredDot dot = stored_dot();
  for (int64_t n = first; n < first + count; ++n) {
    for (int64_t t = 0; t < o.rows; ++t)
      out[t * o.weight.rows + n] = dot(o.weight.row(n), o.x_rows[static_cast<size_t>(t)], o.weight.cols);
  }
}

PanelSpan span_of(const LadderOperands& o, int64_t first, int64_t count) {
  return {&o.packed, first / kPanelRows, (count + kPanelRows - 1) / kPanelRows};
}

// The sums of whole panels, `stride` apart, to their places.
void copy_sums(const LadderOperands& o, const float* sums, int64_t stride, int64_t first, int64_t count, float* out) {
  for (int64_t t = 0; t < o.rows; ++t)
    std::copy(sums + t * stride, sums + t * stride + count, out + t * o.weight.rows + first);
}

// 4. Packed panels: a vector holds 16 outputs, so no sum crosses its lanes, and scales are loaded 16 at a time.
void panels(const LadderOperands& o, int64_t first, int64_t count, float* out, std::byte* scratch) {
  const PanelSpan span = span_of(o, first, count);
  auto* sums = reinterpret_cast<float*>(scratch);
  kernels().panels->run(span, o.x_rows.data(), o.rows, sums, span.n * kPanelRows);
  copy_sums(o, sums, span.n * kPanelRows, first, count, out);
}

// Memory for the weights of `panels` panels expanded, all of K or a piece at a time.
int64_t memory_bytes(const LadderOperands& o, int64_t panels) {
  const PanelKernels& k = *kernels().panels;
  const int64_t bytes =
      k.run_pieces != nullptr ? k.piece_bytes(o.packed.kind, panels) : expanded_bytes(o.packed, panels);
  return (bytes + 63) / 64 * 64;
}

// 5. For many rows: nibbles and scales are expanded once, and tiles of rows meet them.
void expanded(const LadderOperands& o, int64_t first, int64_t count, float* out, std::byte* scratch) {
  const PanelKernels& k = *kernels().panels;
  const PanelSpan span = span_of(o, first, count);
  auto* sums = reinterpret_cast<float*>(scratch + memory_bytes(o, span.n));
  if (k.run_pieces != nullptr) {
    k.run_pieces(span, scratch, o.x_rows.data(), o.rows, sums, span.n * kPanelRows);
  } else {
    k.expand(span, scratch);
    k.run_expanded(span, scratch, o.x_rows.data(), o.rows, sums, span.n * kPanelRows);
  }
  copy_sums(o, sums, span.n * kPanelRows, first, count, out);
}

constexpr LadderStep kSteps[] = {{"1 plain", false, plain},
                                 {"2 vectors", false, vectors},
                                 {"3 integers", true, integers},
                                 {"4 panels", true, panels},
                                 {"5 expanded", true, expanded}};

}  // namespace

std::span<const LadderStep> ladder() { return kSteps; }

int64_t ladder_scratch_bytes(const LadderOperands& o, int64_t count) {
  const int64_t n = (count + kPanelRows - 1) / kPanelRows;
  const int64_t tile = kernels().panels->tile_rows, rows = (o.rows + tile - 1) / tile * tile;
  const int64_t many = memory_bytes(o, n) + n * kPanelRows * rows * 4;
  return std::max(many, o.weight.cols * 4);
}

LadderOperands::LadderOperands(const Weight& w, const PackedWeight& p, const float* values, int64_t n)
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
