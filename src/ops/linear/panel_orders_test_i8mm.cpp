// The two sides of panel_orders_test.cpp, compiled for i8mm.
#define INGOT_ISA i8mm
#include "matmul/cpu/arm/panel_i8mm.h"
#include "matmul/cpu/arm/panel_solo.h"
#include "matmul/cpu/panel_sources.h"
#include "ops/linear/panel_orders_test_support.h"

namespace ingot::cpu {
namespace i8mm {
namespace {

template <class L>
void plain_solo(const PackedWeight& weight, const XRow& x, float* out) {
  const PackedSource<L> w(weight, 0);
  const int64_t blocks = weight.cols / kPanelBlock;
  const int32_t start = PackedSource<L>::start(weight.zero);
  const uint8x16_t mask = vld1q_u8(kNibbleMasks[L::kFlip == 0x88]);
  Floats acc[4] = {};
  if constexpr (L::kCoarse) {
    solo_groups<L>(w, blocks, start, x, mask, acc);
  } else {
    solo_blocks<L>(w, blocks, start, x, mask, acc);
  }
  for (int v = 0; v < 4; ++v) store_floats(out + 4 * v, scale_row(w, 4 * v, acc[v]));
}

// All rows by plain tiles of six, the last perhaps fewer.
template <class Source>
void plain_pairs(const Source& w, const PackedWeight& weight, const XRow* x, int64_t rows, float* out) {
  const int64_t blocks = weight.cols / kPanelBlock;
  for (int64_t r = 0, n = 0; r < rows; r += n) {
    n = rows_of_tile(rows - r);
    const XTile tile = x_tile<typename Source::Layout>(x[r], n, weight.cols, 0, 0, blocks);
    for (int at = 0; at < kPanelRows; at += 8) {
      float* to = out + r * kPanelRows + at;
      if (n > 4) {
        pair_tile<Source, 3>(w, 0, blocks, blocks, weight.zero, tile, at, n, to, kPanelRows);
      } else if (n > 2) {
        pair_tile<Source, 2>(w, 0, blocks, blocks, weight.zero, tile, at, n, to, kPanelRows);
      } else {
        pair_tile<Source, 1>(w, 0, blocks, blocks, weight.zero, tile, at, n, to, kPanelRows);
      }
    }
  }
}

void solo_ordered(const PackedWeight& weight, const std::byte*, const XRow* x, int64_t, float* out) {
  with_layout(weight.kind, [&](auto layout) { run_solo<decltype(layout)>({&weight, 0, 1}, *x, out); });
}
void solo_plain(const PackedWeight& weight, const std::byte*, const XRow* x, int64_t, float* out) {
  with_layout(weight.kind, [&](auto layout) { plain_solo<decltype(layout)>(weight, *x, out); });
}

void packed_ordered(const PackedWeight& weight, const std::byte*, const XRow* x, int64_t rows, float* out) {
  with_layout(weight.kind, [&](auto layout) {
    run_some_i8mm<decltype(layout)>({&weight, 0, 1}, x, rows, out, kPanelRows);
  });
}
void packed_plain(const PackedWeight& weight, const std::byte*, const XRow* x, int64_t rows, float* out) {
  with_layout(weight.kind,
              [&](auto layout) { plain_pairs(PackedSource<decltype(layout)>(weight, 0), weight, x, rows, out); });
}

void expanded_ordered(const PackedWeight& weight, const std::byte* memory, const XRow* x, int64_t rows, float* out) {
  with_layout(weight.kind, [&](auto layout) {
    run_many_i8mm<decltype(layout)>({&weight, 0, 1}, memory, x, rows, out, kPanelRows);
  });
}
void expanded_plain(const PackedWeight& weight, const std::byte* memory, const XRow* x, int64_t rows, float* out) {
  with_layout(weight.kind,
              [&](auto layout) { plain_pairs(Expanded<decltype(layout)>(memory, weight.cols), weight, x, rows, out); });
}

}  // namespace
}  // namespace i8mm

const TilePair kSoloTiles = {.ordered = i8mm::solo_ordered, .plain = i8mm::solo_plain};
const TilePair kPackedTiles = {.ordered = i8mm::packed_ordered, .plain = i8mm::packed_plain};
const TilePair kExpandedTiles = {.ordered = i8mm::expanded_ordered, .plain = i8mm::expanded_plain};

}  // namespace ingot::cpu
