// Integer weights on AMX, for many rows.
//
// A product of tiles is 16 rows of x by the 16 outputs of a panel over one group of K; then its 256 integers become
// floats, each times two scales: 3 vector operations for each row (4 with mins), 24 to 32 cycles for what the tiles
// multiply in 16. So all depends on doing both at once and on having everything else in the caches:
//  - A step is 16 rows of x, kept in four tiles, by one panel; steps follow each other through all panels and rows.
//    While the products of one run, those of the step before are scaled. The float sums lie in `out` between steps.
//  - K goes in pieces. The panels' piece is expanded once, into the L2 cache, for all rows.
//  - Rows of x are packed in the order in which they are read, with their scales: one stream instead of 48.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/panel_sources.h"
#include "matmul/cpu/x86/panel_amx_config.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Values of K of a piece, twice as many with groups of 128: 256 to 1024 differ by less than two runs of one.
constexpr int64_t kPieceK = 512;
constexpr int64_t kXTile = 16;  // rows

template <class L>
struct AmxShape {
  static constexpr bool kRow = L::kScale == ScaleKind::kRow;
  static constexpr bool kZeros = L::kScale == ScaleKind::kF16Zero;
  static constexpr int64_t kBlock = L::kCoarse ? kPanelCoarse : kPanelBlock;    // values of x with one scale
  static constexpr int64_t kTileK = L::kCoarse ? 64 : L::kGroup;                // values of a product of tiles
  static constexpr int64_t kOfBlock = kBlock / L::kGroup;                       // groups
  static constexpr int kStepGroups = static_cast<int>(4 * kTileK / L::kGroup);  // of four tiles of x
  static constexpr int64_t kStepBlocks = kStepGroups / kOfBlock;
  static constexpr int64_t kStepK = kStepBlocks * kBlock;
  static constexpr int64_t kPieceSteps = (L::kCoarse ? 2 : 1) * kPieceK / kStepK;
  // A block of x: int8 [kBlock / tile][16 rows][values of a tile], f32 scale[16], then a · Σq or, for 128, int32 Σq.
  static constexpr int64_t kXRowBytes = L::kCoarse ? 64 : kPanelBlock;
  static constexpr int64_t kXBytes = kXTile * kBlock + 128;
  // A group of weights: int8 [quads][16 outputs][4], f32 scale[16] unless kRow, f32 min[16] or int32 zero[16].
  static constexpr int64_t kRunBytes = kPanelRows * L::kGroup;
  static constexpr int64_t kWBytes = kRunBytes + (kRow ? 0 : L::kMin || kZeros ? 128 : 64);
  static constexpr int64_t kPieceBytes = kPieceSteps * kStepGroups * kWBytes;

  static constexpr int64_t x_tile(int64_t i) {  // where it lies
    const int64_t k = i * kTileK;
    return k / kBlock * kXBytes + (L::kCoarse ? k % kBlock * kXTile : k % kBlock);
  }
  static constexpr int64_t steps(int64_t cols) { return (cols + kStepK - 1) / kStepK; }
};

// A step of one panel: 16 rows of x by its 16 outputs, kStepGroups groups.
struct AmxStep {
  const uint8_t* x;
  const uint8_t* w;
  float* out;
  bool fresh;  // x is another than the step's before
  // Mins of groups of 16 need sums of 16 values of x, which are not packed.
  const XRow* rows;
  int64_t n_rows, block, last_block;
};

// The rows of a step in tiles 2 to 5.
template <class L>
[[gnu::always_inline]] inline void amx_open_x(const uint8_t* x) {
  using S = AmxShape<L>;
  constexpr size_t kStride = static_cast<size_t>(S::kXRowBytes);
  _tile_loadd(2, x + S::x_tile(0), kStride);
  _tile_loadd(3, x + S::x_tile(1), kStride);
  _tile_loadd(4, x + S::x_tile(2), kStride);
  _tile_loadd(5, x + S::x_tile(3), kStride);
}

// The product of group kGroup with these rows, in tile 0 or, for odd groups, 1.
template <class L, int kGroup>
[[gnu::always_inline]] inline void amx_multiply(const uint8_t* panel) {
  const uint8_t* w = panel + kGroup * AmxShape<L>::kWBytes;
  if constexpr (L::kCoarse && kGroup == 0) {
    _tile_zero(0);
    _tile_loadd(6, w, 64);
    _tile_dpbssd(0, 2, 6);
    _tile_loadd(7, w + 1024, 64);
    _tile_dpbssd(0, 3, 7);
  } else if constexpr (L::kCoarse) {
    _tile_zero(1);
    _tile_loadd(6, w, 64);
    _tile_dpbssd(1, 4, 6);
    _tile_loadd(7, w + 1024, 64);
    _tile_dpbssd(1, 5, 7);
  } else if constexpr (kGroup == 0) {
    _tile_zero(0);
    _tile_loadd(6, w, 64);
    _tile_dpbssd(0, 2, 6);
  } else if constexpr (kGroup == 1) {
    _tile_zero(1);
    _tile_loadd(7, w, 64);
    _tile_dpbssd(1, 3, 7);
  } else if constexpr (kGroup == 2) {
    _tile_zero(0);
    _tile_loadd(6, w, 64);
    _tile_dpbssd(0, 4, 6);
  } else {
    _tile_zero(1);
    _tile_loadd(7, w, 64);
    _tile_dpbssd(1, 5, 7);
  }
}

// Beyond the last column mins are 0, and any sum will do.
inline float amx_half_sum(const AmxStep& step, int64_t row, int g) {
  const int64_t block = step.block + g / 2 < step.last_block ? step.block + g / 2 : step.last_block;
  return step.rows[row < step.n_rows ? row : 0].blocks[block].half_sum[g % 2];
}

// Adds group kGroup.
template <class L, int kGroup>
[[gnu::always_inline]] inline void amx_scale(const AmxStep& step, const int32_t (*sums)[16], Floats (&acc)[16]) {
  using S = AmxShape<L>;
  const float* a = reinterpret_cast<const float*>(step.x + kGroup / S::kOfBlock * S::kXBytes + kXTile * S::kBlock);
  const float* fields = reinterpret_cast<const float*>(step.w + kGroup * S::kWBytes + S::kRunBytes);
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) {
    Ints sum = load_ints(sums[r]);
    if constexpr (S::kZeros)
      sum = minus_product(sum, load_ints(fields + 16), reinterpret_cast<const int32_t*>(a + 16)[r]);
    const Floats scale = S::kRow ? all(a[r]) : times(all(a[r]), load_floats(fields));
    acc[r] = multiply_add(to_floats(sum), scale, acc[r]);
    if constexpr (L::kMin) {
      const float s = S::kOfBlock == 1 ? a[16 + r] : amx_half_sum(step, r, kGroup);
      acc[r] = multiply_add(load_floats(fields + 16), all(s), acc[r]);
    }
  }
}

// The products of the step `next`, each followed by the scaling of the same group of the step `now` before it, whose
// product it replaces in `sums`. A product is stored one group later, so that no store waits for it, and read three
// groups after that. Two panels side by side, which read each scale of x once but load x again for each group, with
// sums of 16 KB, took 105 to 130 ticks for a product where this takes 80 to 105 (16 threads, Q4_0 and Q4_K).
template <class L, bool kMultiply, bool kScale, int kGroup = 0>
[[gnu::always_inline]] inline void amx_step(const AmxStep& next, const AmxStep& now, int64_t stride,
                                            int32_t (*sums)[16][16], Floats (&acc)[16]) {
  constexpr int kGroups = AmxShape<L>::kStepGroups;
  if constexpr (kMultiply) amx_multiply<L, kGroup>(next.w);
  if constexpr (kScale) {
    if constexpr (kGroup == 0) {
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) acc[r] = load_floats(now.out + r * stride);
    }
    amx_scale<L, kGroup>(now, sums[kGroup], acc);
    if constexpr (kGroup + 1 == kGroups) {
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) store_floats(now.out + r * stride, acc[r]);
    }
  }
  if constexpr (kMultiply && kGroup % 2 == 0) _tile_stored(1, sums[kGroup == 0 ? kGroups - 1 : kGroup - 1], 64);
  if constexpr (kMultiply && kGroup % 2 == 1) _tile_stored(0, sums[kGroup - 1], 64);
  if constexpr (kGroup + 1 < kGroups) amx_step<L, kMultiply, kScale, kGroup + 1>(next, now, stride, sums, acc);
}

// The steps of a piece: of each 16 rows, one step's groups after another, all panels.
template <class L>
class AmxSteps {
  using S = AmxShape<L>;

 public:
  AmxSteps(const uint8_t* panels, int64_t n_panels, const XRow* x, int64_t rows, int64_t cols, int64_t first,
           int64_t steps, float* out, int64_t stride)
      : panels_(panels),
        n_panels_(n_panels),
        x_(x),
        rows_(rows),
        last_block_(cols / kPanelBlock - 1),
        first_(first),
        steps_(steps),
        out_(out),
        stride_(stride) {}

  bool done() const { return row_ >= rows_; }
  AmxStep take() {
    const XRow& x = x_[row_];
    const auto* tile = reinterpret_cast<const uint8_t*>(L::kCoarse ? x.coarse_tile : x.tile);
    const AmxStep taken{tile + (first_ + step_) * S::kStepBlocks * S::kXBytes,
                        panels_ + panel_ * S::kPieceBytes + step_ * S::kStepGroups * S::kWBytes,
                        out_ + row_ * stride_ + panel_ * kPanelRows,
                        panel_ == 0,
                        &x,
                        rows_ - row_,
                        (first_ + step_) * S::kStepBlocks,
                        last_block_};
    if (++panel_ < n_panels_) return taken;
    panel_ = 0;
    if (++step_ < steps_) return taken;
    step_ = 0;
    row_ += kXTile;
    return taken;
  }

 private:
  const uint8_t* const panels_;
  const int64_t n_panels_;
  const XRow* const x_;
  const int64_t rows_, last_block_, first_, steps_;
  float* const out_;
  const int64_t stride_;
  int64_t row_ = 0, panel_ = 0, step_ = 0;
};

template <class L>
void amx_piece(AmxSteps<L> steps, int64_t stride) {
  alignas(4096) int32_t sums[AmxShape<L>::kStepGroups][16][16];
  Floats acc[16] = {};
  AmxStep now = steps.take();
  amx_open_x<L>(now.x);
  amx_step<L, true, false>(now, now, stride, sums, acc);
  while (!steps.done()) {
    const AmxStep next = steps.take();
    if (next.fresh) amx_open_x<L>(next.x);
    amx_step<L, true, true>(next, now, stride, sums, acc);
    now = next;
  }
  _tile_stored(1, sums[AmxShape<L>::kStepGroups - 1], 64);
  amx_step<L, false, true>(now, now, stride, sums, acc);
}

// Steps [first, first + n) of a panel as tiles read them: signed bytes, zeros beyond the last column.
template <class L>
void amx_expand(const PackedWeight& weight, int64_t panel, int64_t first, int64_t n, uint8_t* to) {
  using S = AmxShape<L>;
  const PackedSource<L> from(weight, panel);
  // Tiles multiply signed bytes.
  const Weights zero = _mm512_set1_epi8(static_cast<char>(weight.zero));
  const int64_t blocks = weight.cols / kPanelBlock, end = (first + n) * S::kStepK / kPanelBlock;
  const auto place = [&](int64_t k) { return to + k / L::kGroup * S::kWBytes + k % L::kGroup * kPanelRows; };
  const int64_t begin = first * S::kStepK;
  int64_t b = begin / kPanelBlock;
  for (; b < end && b < blocks; ++b)
#pragma GCC unroll 4
    for (int p = 0; p < kRunPairs; ++p) {
      Weights even, odd;
      from.runs(b, p, 0, even, odd);
      uint8_t* runs = place(b * kPanelBlock - begin + 2 * kRun * p);
      store_weights(runs, _mm512_sub_epi8(even, zero));
      store_weights(runs + kRun * kPanelRows, _mm512_sub_epi8(odd, zero));
    }
  for (; b < end; ++b)
    for (int64_t k = 0; k < kPanelBlock; k += kRun)
      __builtin_memset(place(b * kPanelBlock - begin + k), 0, kRun * kPanelRows);
  if constexpr (!S::kRow) {
    for (int64_t g = 0; g < n * S::kStepGroups; ++g) {
      float* fields = reinterpret_cast<float*>(to + g * S::kWBytes + S::kRunBytes);
      const int64_t group = first * S::kStepGroups + g;
      const bool inside = group < L::groups(weight.cols);
      store_floats(fields, inside ? from.scale(group, 0) : zero_floats());
      if constexpr (L::kMin) store_floats(fields + 16, inside ? from.min(group, 0) : zero_floats());
      if constexpr (S::kZeros) store_ints(fields + 16, inside ? from.zeros(group, 0) : all_ints(0));
    }
  }
}

// Few rows go panel by panel, two at a time: then their piece is in the L1 cache.
constexpr int64_t kPieceRows = 32;

template <class L>
void amx_panels(const PanelSpan& span, std::byte* memory, const XRow* x, int64_t rows, float* out, int64_t stride) {
  using S = AmxShape<L>;
  const PackedWeight& w = *span.weight;
  auto* panels = reinterpret_cast<uint8_t*>(memory);
  for (int64_t r = 0; r < (rows + kXTile - 1) / kXTile * kXTile; ++r)
    for (int64_t i = 0; i < span.n; ++i) store_floats(out + r * stride + 16 * i, zero_floats());
  for (int64_t first = 0; first < S::steps(w.cols); first += S::kPieceSteps) {
    const int64_t left = S::steps(w.cols) - first, n = left < S::kPieceSteps ? left : S::kPieceSteps;
    for (int64_t i = 0; i < span.n; ++i) amx_expand<L>(w, span.first + i, first, n, panels + i * S::kPieceBytes);
    amx_piece<L>(AmxSteps<L>(panels, span.n, x, rows, w.cols, first, n, out, stride), stride);
  }
  if constexpr (S::kRow) {
    for (int64_t i = 0; i < span.n; ++i) {
      const Floats scale = PackedSource<L>(w, span.first + i).scale(0, 0);
      for (int64_t r = 0; r < rows; ++r) {
        float* to = out + r * stride + 16 * i;
        store_floats(to, times(load_floats(to), scale));
      }
    }
  }
}

template <class L>
void run_pieces_amx(const PanelSpan& span, std::byte* memory, const XRow* x, int64_t rows, float* out, int64_t stride) {
  configure(16, static_cast<int>(AmxShape<L>::kTileK), 2);
  const int64_t at_once = rows > kPieceRows ? span.n : 2;
  for (int64_t i = 0; i < span.n; i += at_once) {
    const int64_t n = span.n - i < at_once ? span.n - i : at_once;
    amx_panels<L>({span.weight, span.first + i, n}, memory, x, rows, out + i * kPanelRows, stride);
  }
  _tile_release();
}

// Rows of x in tiles of 16, as AmxShape says; zeros for the rows that a short tile lacks, and beyond the last column.
template <bool kCoarse>
using XShape = AmxShape<PanelLayout<4, kCoarse ? 128 : 32, ScaleKind::kF16, false>>;

int64_t tile_bytes(int64_t cols) {
  const auto bytes = [&](auto shape) {
    using S = decltype(shape);
    return S::steps(cols) * S::kStepBlocks * S::kXBytes;
  };
  const int64_t fine = bytes(XShape<false>{}), coarse = bytes(XShape<true>{});
  return fine > coarse ? fine : coarse;
}

template <bool kCoarse>
void pack_rows(const XRow* x, int64_t rows, int64_t cols, std::byte* to) {
  using S = XShape<kCoarse>;
  constexpr int64_t kBytes = S::kXRowBytes;
  auto* at = reinterpret_cast<uint8_t*>(to);
  const int64_t blocks = (cols + S::kBlock - 1) / S::kBlock;
  if (rows < kXTile) __builtin_memset(at, 0, static_cast<size_t>(blocks * S::kXBytes));
  for (int64_t b = 0; b < blocks; ++b, at += S::kXBytes) {
    auto* a = reinterpret_cast<float*>(at + kXTile * S::kBlock);
    for (int64_t r = 0; r < rows; ++r) {
      const XBlock& block = kCoarse ? x[r].coarse.blocks[b] : x[r].blocks[b];
      const int8_t* q = (kCoarse ? x[r].coarse.q : x[r].q) + b * S::kBlock;
      for (int64_t k = 0; k < S::kBlock; k += kBytes) {
        uint8_t* row = at + k * kXTile + r * kBytes;
        const int64_t left = cols - b * S::kBlock - k, n = left < 0 ? 0 : left < kBytes ? left : kBytes;
        if (n == kBytes) {
          __builtin_memcpy(row, q + k, static_cast<size_t>(kBytes));
        } else {
          __builtin_memcpy(row, q + k, static_cast<size_t>(n));
          __builtin_memset(row + n, 0, static_cast<size_t>(kBytes - n));
        }
      }
      a[r] = block.scale;
      a[kXTile + r] = kCoarse ? __builtin_bit_cast(float, block.total) : block.sum;
    }
  }
  __builtin_memset(at, 0, static_cast<size_t>((S::steps(cols) * S::kStepBlocks - blocks) * S::kXBytes));
}

void pack_tile(const XRow* x, int64_t rows, int64_t cols, bool coarse, std::byte* to) {
  if (coarse) return pack_rows<true>(x, rows, cols, to);
  pack_rows<false>(x, rows, cols, to);
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
