// Groups of 16 with super-blocks on AMX, for many rows: one float sum for each 128 values (quant/panel_layout.h).
//
// scale · (q − zero) is an integer of 16 bits, expanded as a signed high and an unsigned low byte: two products of
// tiles for each 64 values where groups of 16 by themselves take four, whose sums stay in their tiles for 128 values: a
// quarter is stored and scaled. Q6_K, 512 rows, 16 threads of a Xeon, three runs in turn: 3.8, 4.1 and 4.1 TOP/s each
// group by itself, 7.1, 7.1 and 7.5 like this. Groups of 32 with mins (Q4_K) gain nothing: 5.7 to 6.4 against 5.4
// to 6.1.
//
// A step is 32 rows of x by one panel, 128 values of K. While its products run, those of two steps before are scaled.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/x86/panel_amx_int8.h"
#include "matmul/cpu/x86/panel_super.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

struct SuperShape {
  static constexpr int64_t kTile = 1024;  // bytes of 64 values of 16 outputs
  // Weights: high bytes of the first and second 64 values, low bytes, f32 d[16].
  static constexpr int64_t kLow = 2 * kTile, kFields = 4 * kTile;
  static constexpr int64_t kBytes = kFields + 64;
  static constexpr int64_t kBlocks = kPieceK / kPanelCoarse;  // of a piece: [block][panel]
  static constexpr int64_t kPieceBytes = kBlocks * kBytes;    // of a panel
  using X = AmxShape<PanelLayoutOf<PanelKind::kInt4>>;
};

struct SuperStep {
  const uint8_t* x[2];  // the second is null where 16 rows are left
  const uint8_t* w;
  float* out;
};

// Tiles 6 and 7: weights of the `half`-th 64 values.
[[gnu::always_inline]] inline void super_open_w(const uint8_t* w, int half) {
  _tile_loadd(6, w + half * SuperShape::kTile, 64);
  _tile_loadd(7, w + SuperShape::kLow + half * SuperShape::kTile, 64);
}

// The products of 64 values with the first 16 rows of a step in tiles 0 (high bytes) and 1, or the second in 2 and 3.
template <bool kSecond, bool kFresh>
[[gnu::always_inline]] inline void super_multiply(const uint8_t* x) {
  if constexpr (kSecond) {
    _tile_loadd(5, x, 64);
    if constexpr (kFresh) {
      _tile_zero(2);
      _tile_zero(3);
    }
    _tile_dpbssd(2, 5, 6);
    _tile_dpbsud(3, 5, 7);
  } else {
    _tile_loadd(4, x, 64);
    if constexpr (kFresh) {
      _tile_zero(0);
      _tile_zero(1);
    }
    _tile_dpbssd(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
  }
}

// Adds 8 rows' products, from row `first` on; `sums` are those of 16 rows.
[[gnu::always_inline]] inline void super_scale(const uint8_t* x, const uint8_t* w, const int32_t (*sums)[16][16],
                                               int first, float* out, int64_t stride) {
  const float* a = reinterpret_cast<const float*>(x + kXTile * kPanelCoarse) + first;
  const float* fields = reinterpret_cast<const float*>(w + SuperShape::kFields);
  const Floats d = load_floats(fields);
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r) {
    const Ints high = load_ints(sums[0][first + r]), low = load_ints(sums[1][first + r]);
    const Ints sum = add_ints(_mm512_maskz_slli_epi32(0xffff, high, 8), low);
    float* to = out + (first + r) * stride;
    store_floats(to, multiply_add(to_floats(sum), times(all(a[r]), d), load_floats(to)));
  }
}

// The steps of a piece: of each 32 rows, one block after another, all panels.
class SuperSteps {
 public:
  SuperSteps(const uint8_t* panels, int64_t n_panels, const XRow* x, int64_t rows, int64_t first, int64_t blocks,
             float* out, int64_t stride)
      : panels_(panels),
        n_panels_(n_panels),
        x_(x),
        rows_(rows),
        first_(first),
        blocks_(blocks),
        out_(out),
        stride_(stride) {}

  int64_t count() const { return (rows_ + 2 * kXTile - 1) / (2 * kXTile) * blocks_ * n_panels_; }
  SuperStep take() {
    const auto tile = [&](int64_t row) {
      return reinterpret_cast<const uint8_t*>(x_[row].coarse_tile) + (first_ + block_) * SuperShape::X::kXBytes;
    };
    const SuperStep taken{{tile(row_), row_ + kXTile < rows_ ? tile(row_ + kXTile) : nullptr},
                          panels_ + (block_ * n_panels_ + panel_) * SuperShape::kBytes,
                          out_ + row_ * stride_ + panel_ * kPanelRows};
    if (++panel_ < n_panels_) return taken;
    panel_ = 0;
    if (++block_ < blocks_) return taken;
    block_ = 0;
    row_ += 2 * kXTile;
    return taken;
  }

 private:
  const uint8_t* const panels_;
  const int64_t n_panels_;
  const XRow* const x_;
  const int64_t rows_, first_, blocks_;
  float* const out_;
  const int64_t stride_;
  int64_t row_ = 0, panel_ = 0, block_ = 0;
};

// What happens at once: products of `next`, the sums of `last`, the step before it, to memory, and scaling of `now`,
// the one before that. Null: none.
[[gnu::always_inline]] inline void super_step(const SuperStep* next, const SuperStep* last, const SuperStep* now,
                                              int32_t (*stored)[16][16], const int32_t (*sums)[16][16],
                                              int64_t stride) {
  const auto scale = [&](int part) {
    if (now == nullptr || now->x[part / 2] == nullptr) return;
    super_scale(now->x[part / 2], now->w, sums + part / 2 * 2, part % 2 * 8, now->out + part / 2 * kXTile * stride,
                stride);
  };
  const bool two = next != nullptr && next->x[1] != nullptr;
  if (last != nullptr) {
    _tile_stored(0, stored[0], 64);
    _tile_stored(1, stored[1], 64);
  }
  if (next != nullptr) {
    super_open_w(next->w, 0);
    super_multiply<false, true>(next->x[0]);
  }
  scale(0);
  if (last != nullptr && last->x[1] != nullptr) {
    _tile_stored(2, stored[2], 64);
    _tile_stored(3, stored[3], 64);
  }
  if (two) super_multiply<true, true>(next->x[1]);
  scale(1);
  if (next != nullptr) {
    super_open_w(next->w, 1);
    super_multiply<false, false>(next->x[0] + SuperShape::kTile);
  }
  scale(2);
  if (two) super_multiply<true, false>(next->x[1] + SuperShape::kTile);
  scale(3);
}

inline void super_piece(SuperSteps steps, int64_t stride) {
  alignas(4096) int32_t sums[2][4][16][16];
  SuperStep ring[3];
  const int64_t n = steps.count();
  for (int64_t i = 0; i < n + 2; ++i) {
    SuperStep& next = ring[i % 3];
    const SuperStep *last = &ring[(i + 2) % 3], *now = &ring[(i + 1) % 3];
    if (i >= 2 && i < n) {
      next = steps.take();
      super_step(&next, last, now, sums[i % 2], sums[(i + 1) % 2], stride);
    } else {
      if (i < n) next = steps.take();
      super_step(i < n ? &next : nullptr, i >= 1 && i <= n ? last : nullptr, i >= 2 ? now : nullptr, sums[i % 2],
                 sums[(i + 1) % 2], stride);
    }
  }
}

// 64 weights of one quad of K, times the scales of their outputs: high and low bytes.
inline void super_split(Weights q, Shorts zero, Shorts scale, uint8_t* to) {
  const Shorts even = (((Shorts)q & 255) - zero) * scale, odd = (((Shorts)q >> 8) - zero) * scale;
  store_weights(to, (Weights)((even >> 8) | (odd & 0xff00)));
  store_weights(to + SuperShape::kLow, (Weights)((even & 255) | (odd << 8)));
}

// Block b of 128 values of a panel as tiles read it.
template <class L>
void super_expand(const SuperSource<L>& from, int64_t block, int zero, uint8_t* to) {
  typedef uint32_t Words __attribute__((vector_size(64)));
  const Shorts zeros = static_cast<uint16_t>(zero) - Shorts{};
  constexpr int kPairs = L::kGroup / (2 * kRun);
  const int64_t first = block * kOfCoarse;
#pragma GCC unroll 4
  for (int i = 0; i < kOfCoarse; ++i)
#pragma GCC unroll 2
    for (int g = 0; g < L::kGroups; ++g) {
      const Shorts scale = (Shorts)(((Words)from.whole_scale((first + i) * L::kGroups + g) & 0xffff) * 0x10001);
#pragma GCC unroll 4
      for (int p = g * kPairs; p < (g + 1) * kPairs; ++p) {
        Weights even, odd;
        from.runs(first + i, p, 0, even, odd);
        uint8_t* quad = to + i * (kPanelBlock * kPanelRows) + 2 * p * 64;
        super_split(even, zeros, scale, quad);
        super_split(odd, zeros, scale, quad + 64);
      }
    }
  float* fields = reinterpret_cast<float*>(to + SuperShape::kFields);
  store_floats(fields, from.super_scale(first));
}

template <class L>
void run_supers_amx(const PanelSpan& span, std::byte* memory, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const PackedWeight& w = *span.weight;
  auto* panels = reinterpret_cast<uint8_t*>(memory);
  for (int64_t r = 0; r < (rows + kXTile - 1) / kXTile * kXTile; ++r)
    for (int64_t i = 0; i < span.n; ++i) store_floats(out + r * stride + 16 * i, zero_floats());
  configure(16, 64);
  const int64_t blocks = w.cols / kPanelCoarse;
  for (int64_t first = 0; first < blocks; first += SuperShape::kBlocks) {
    const int64_t n = blocks - first < SuperShape::kBlocks ? blocks - first : SuperShape::kBlocks;
    for (int64_t i = 0; i < span.n; ++i)
      for (int64_t b = 0; b < n; ++b)
        super_expand<L>({w, span.first + i}, first + b, w.zero, panels + (b * span.n + i) * SuperShape::kBytes);
    asm volatile("" ::: "memory");  // loads of tiles do not say that they read memory
    super_piece(SuperSteps(panels, span.n, x, rows, first, n, out, stride), stride);
  }
  _tile_release();
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
