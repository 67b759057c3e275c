// Packed weights: a task is some panels. With few rows of x they are read as they are packed; with many they are
// expanded once into this thread's scratch and stay in its second-level cache while the rows pass.
#include <algorithm>
#include <utility>

#include "ops/kernels.h"
#include "ops/linear/linear_parts.h"

namespace ingot::cpu {
namespace {

// Bytes of expanded weights, and of sums: a quarter each of a second-level cache of 1 MiB.
constexpr int64_t kExpandedBytes = 256 << 10;
constexpr int64_t kSumBytes = 128 << 10;

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

}  // namespace

LinearCut panels_cut(const Linear& op, const Linear::Part& part, int64_t rows, int threads) {
  const PanelKernels& k = *kernels().panels;
  const int64_t parts = op.is_glu() ? 2 : 1;
  LinearCut cut{};
  // Four tasks or more for each thread, so that none waits long for the last one.
  int64_t panels = std::max<int64_t>(1, part.packed->panels() / (4 * threads));
  const bool many = rows > k.direct_rows;
  const int64_t expanded = std::max<int64_t>(1, expanded_bytes(*part.packed, 1));
  panels = std::min(panels, std::max<int64_t>(1, kExpandedBytes / expanded / parts));
  cut.block = panels * kPanelRows;
  cut.pass = many ? std::max(k.tile_rows, kSumBytes / (4 * parts * cut.block) / k.tile_rows * k.tile_rows) : rows;
  cut.scratch = (many ? parts * round_up(expanded_bytes(*part.packed, panels), 64) : 0) +
                parts * cut.block * cut.pass * static_cast<int64_t>(sizeof(float));
  return cut;
}

void run_panels(const Linear& op, const LinearBlock& block, const LinearCut& cut, const XRow* x, int64_t rows,
                std::byte* scratch) {
  const PanelKernels& k = *kernels().panels;
  const bool many = rows > k.direct_rows;
  const int parts = op.is_glu() ? 2 : 1;
  PanelSpan spans[2];
  std::byte* expanded[2] = {};
  for (int p = 0; p < parts; ++p) {
    const PackedWeight* w = op.parts[block.part + static_cast<size_t>(p)].packed;
    spans[p] = {w, block.first / kPanelRows, (block.n + kPanelRows - 1) / kPanelRows};
    if (!many) continue;
    expanded[p] = std::exchange(scratch, scratch + round_up(expanded_bytes(*w, cut.block / kPanelRows), 64));
    k.expand(spans[p], expanded[p]);
  }
  float* sums = reinterpret_cast<float*>(scratch);  // [rows of the pass, parts, block]
  const int64_t stride = parts * cut.block;
  for (int64_t t = 0; t < rows; t += cut.pass) {
    const int64_t pass = std::min(cut.pass, rows - t);
    for (int p = 0; p < parts; ++p) {
      if (many) {
        k.run_expanded(spans[p], expanded[p], x + t, pass, sums + p * cut.block, stride);
      } else {
        k.run(spans[p], x + t, pass, sums + p * cut.block, stride);
      }
    }
    for (int64_t i = 0; i < pass; ++i) finish_row(op, block, t + i, sums + i * stride, sums + i * stride + cut.block);
  }
}

namespace {

struct XLayout {
  int64_t blocks, q, wide;  // bytes of each of a row

  explicit XLayout(int64_t cols)
      : blocks(round_up(cols / kPanelBlock * static_cast<int64_t>(sizeof(XBlock)), 64)),
        q(round_up(cols, 64)),
        wide(round_up(2 * cols, 64)) {}
  // An odd number of cache lines: at a multiple of 4096 bytes the rows of a tile would share one set of the cache.
  int64_t row() const { return (blocks + q + wide) / 64 % 2 == 0 ? blocks + q + wide + 64 : blocks + q + wide; }
};

int64_t pointers_bytes(int64_t rows) { return round_up(rows * static_cast<int64_t>(sizeof(XRow)), 64); }

}  // namespace

// The rows with a scale for each 128 values lie behind all others: memory that no op uses is not touched.
int64_t x_rows_bytes(int64_t rows, int64_t cols) { return pointers_bytes(rows) + 2 * rows * XLayout(cols).row(); }

const XRow* make_x_rows(const Linear& op, XKinds kinds, int64_t rows, ThreadPool& pool, std::byte* memory) {
  const PanelKernels& k = *kernels().panels;
  const XLayout layout(op.x.cols);
  auto* x = reinterpret_cast<XRow*>(memory);
  const auto make = [&](int64_t t, int) {
    const float* values = op.x.f32(t);
    std::byte* at = memory + pointers_bytes(rows) + t * layout.row();
    // A set wants 16-bit integers or bf16, never both.
    auto* bf16 = k.to_bf16 != nullptr ? reinterpret_cast<uint16_t*>(at + layout.blocks + layout.q) : nullptr;
    x[t] = {nullptr, nullptr, nullptr, bf16, values};
    if (bf16 != nullptr && kinds.bf16) k.to_bf16(values, op.x.cols, bf16);
    if (kinds.coarse) {
      std::byte* there = at + rows * layout.row();
      auto* blocks = reinterpret_cast<XBlock*>(there);
      auto* q = reinterpret_cast<int8_t*>(there + layout.blocks);
      auto* wide = k.wide ? reinterpret_cast<int16_t*>(there + layout.blocks + layout.q) : nullptr;
      k.quantize_coarse(values, op.x.cols, q, wide, blocks);
      x[t].coarse = {q, wide, blocks};
    }
    if (!kinds.quantized) return;
    auto* blocks = reinterpret_cast<XBlock*>(at);
    auto* q = reinterpret_cast<int8_t*>(at + layout.blocks);
    auto* wide = k.wide ? reinterpret_cast<int16_t*>(at + layout.blocks + layout.q) : nullptr;
    k.quantize(values, op.x.cols, q, wide, blocks);
    x[t].q = q;
    x[t].wide = wide;
    x[t].blocks = blocks;
  };
  // One thread quantizes a row of 4096 in about 1 us, as long as it takes to wake the others.
  if (rows <= 4) {
    for (int64_t t = 0; t < rows; ++t) make(t, 0);
  } else {
    pool.run(rows, make);
  }
  return x;
}

}  // namespace ingot::cpu
