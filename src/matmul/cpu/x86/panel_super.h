// Weights with super-blocks against x in blocks of 128 (quant/panel_layout.h), few rows. For
// sets with `supers`.
//
// The scales of a super-block are integers of 8 bits: Σ scale · (Σ q·x) over 128 values is an integer as well, exact in
// 32 bits, and becomes a float once where groups of 16 by themselves become eight.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/panel_sources.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

template <class L>
constexpr bool kSuperSums = L::kScale == ScaleKind::kSuper&& L::kGroup == 16 && !L::kMin;

constexpr int64_t kOfCoarse = kPanelCoarse / kPanelBlock;  // blocks of 128 values

template <class L>
class SuperSource : public PackedSource<L> {
 public:
  using PackedSource<L>::PackedSource;
  Ints whole_scale(int64_t group) const {
    const auto* s = reinterpret_cast<const __m128i*>(this->scales_of(group));
    return _mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(s));
  }
  Floats super_scale(int64_t b) const { return load_halves(this->super_of(b)); }
};

// Adds scale · product of the groups of block b.
template <class L, int R>
inline void super_block(const SuperSource<L>& w, int64_t b, int32_t start, const XRow* x, Ints (&sums)[R]) {
  constexpr int kPairs = L::kGroup / (2 * kRun);  // of runs, in a group
#pragma GCC unroll 2
  for (int g = 0; g < L::kGroups; ++g) {
    Dot<L::kBits> dot[R] = {};
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) dot[r].begin(start * x[r].coarse.quarters[b].half_total[g]);
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      Weights even, odd;
      w.runs(b, g * kPairs + p, 0, even, odd);
      const int64_t k = b * kPanelBlock + 2 * kRun * (g * kPairs + p);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) dot[r].add(even, x[r].coarse.q + k, nullptr);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) dot[r].add(odd, x[r].coarse.q + k + kRun, nullptr);
    }
    const Ints scale = w.whole_scale(b * L::kGroups + g);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums[r] = add_ints(sums[r], _mm512_mullo_epi32(dot[r].result(), scale));
  }
}

// R rows of x against a panel.
template <class L, int R>
void super_tile(const SuperSource<L>& w, int64_t cols, int zero, const XRow* x, float* out, int64_t stride) {
  Floats acc[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) acc[r] = zero_floats();
  const int32_t start = SuperSource<L>::start(zero);
  for (int64_t b = 0; b < cols / kPanelBlock; b += kOfCoarse) {
    Ints sums[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums[r] = all_ints(0);
#pragma GCC unroll 4
    for (int i = 0; i < kOfCoarse; ++i) super_block<L, R>(w, b + i, start, x, sums);
    const Floats d = w.super_scale(b);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      acc[r] = multiply_add(to_floats(sums[r]), times(all(x[r].coarse.quarters[b].scale), d), acc[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) store_floats(out + r * stride, acc[r]);
}

// All rows, R at a time while so many are left, then half as many.
template <class L, int R>
void super_tiles(const SuperSource<L>& w, int64_t cols, int zero, const XRow* x, int64_t rows, float* out,
                 int64_t stride) {
  for (; rows >= R; rows -= R, x += R, out += R * stride) super_tile<L, R>(w, cols, zero, x, out, stride);
  if constexpr (R > 1) {
    if (rows > 0) super_tiles<L, R / 2>(w, cols, zero, x, rows, out, stride);
  }
}

template <class L>
void run_supers(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const PackedWeight& w = *span.weight;
  for (int64_t i = 0; i < span.n; ++i)
    super_tiles<L, kDirectRows>({w, span.first + i}, w.cols, w.zero, x, rows, out + i * kPanelRows, stride);
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
