// Weights as the kernels read them: packed, or expanded for many rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa_source.h"
#include "matmul/cpu/panel_kernels.h"
#include "matmul/cpu/panel_simd.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Whether the zero point is taken off an expanded panel's bytes: AArch64's products take signed bytes.
#if defined(__ARM_NEON)
constexpr bool kCentered = true;
template <class L>
inline Weights centered(Weights w, int zero) {
  for (Bytes& pair : w.pair) {
    if (L::kFlip == 0x88) {
      pair = (Bytes)vshrq_n_s8((int8x16_t)pair, 4);
    } else if (!L::kMin) {  // with mins the zero point is 0
      pair -= static_cast<uint8_t>(L::kFlip == 0x80 ? zero - 128 : zero);
    }
  }
  return w;
}
#else
constexpr bool kCentered = false;
template <class L>
inline Weights centered(Weights w, int) {
  return w;
}
#endif

constexpr int kRunPairs = kPanelBlock / (2 * kRun);  // of a block

// Packed weights as they lie in memory. `at` is the first row of the tile in the panel.
template <class L>
class PackedSource {
 public:
  using Layout = L;
  PackedSource(const PackedWeight& w, int64_t panel)
      : panel_(reinterpret_cast<const uint8_t*>(w.panel(panel))), cols_(w.cols) {}
  // Each sum of products has to begin with this many times the sum of x.
  static int32_t start(int zero) {
    if constexpr (L::kFlip == 0) return -zero;
    return L::kMiddle ? 0 : 128 - zero;
  }
  // A sum of products of these runs as floats.
  static Floats floats(Ints sum) {
#if defined(__ARM_NEON)
    if constexpr (L::kFlip == 0x88) return to_floats_16(sum);
#endif
    return to_floats(sum);
  }
  // Runs 2p and 2p + 1 of block b.
  void runs(int64_t b, int p, int at, Weights& even, Weights& odd) const {
    const uint8_t* q = runs_of(b) + kRun * at;
    constexpr int64_t kBytes = kRun * kPanelRows;  // of a run
    if constexpr (L::kBits == 8) {
      even = load_weights(q + 2 * kBytes * p);
      odd = load_weights(q + 2 * kBytes * p + kBytes);
      return;
    }
#if defined(__ARM_NEON)
    if constexpr (L::kThreeRuns) return three_runs(q, p, even, odd);
#endif
    const Weights both = load_weights(q + kBytes * p);
#if defined(__ARM_NEON)
    if constexpr (L::kFlip == 0x88) {
      even = low_times_16(both);
      odd = high_times_16(both);
      return;
    }
#endif
    even = low_nibbles(both);
    odd = high_nibbles(both);
    if constexpr (L::kTable) {
      even = looked_up(even);
      odd = looked_up(odd);
    }
    if constexpr (L::kBits > 4) add_high(b, p, at, even, odd);
  }
  Floats scale(int64_t group, int at) const { return field(group, at, 0); }
  Floats min(int64_t group, int at) const {
    const Floats m = field(group, at, 1);
    return L::kScale == ScaleKind::kSuper ? times(m, all(-1.0f)) : m;
  }
  Ints zeros(int64_t group, int at) const {
    return widen_bytes(panel_ + L::scale_at(cols_, group) + 2 * kPanelRows + at);
  }

  const uint8_t* runs_of(int64_t b) const { return panel_ + L::run_at(cols_, b); }
  const uint8_t* scales_of(int64_t group) const { return panel_ + L::scale_at(cols_, group); }
  const uint8_t* super_of(int64_t b) const { return panel_ + L::super_at(cols_, b / (kPanelSuper / kPanelBlock)); }

 private:
#if defined(__ARM_NEON)
  static void three_runs(const uint8_t* q, int p, Weights& even, Weights& odd) {
    constexpr int64_t kBytes = kRun * kPanelRows;
    const Weights first = load_weights(q), second = load_weights(q + kBytes), third = load_weights(q + 2 * kBytes);
    for (int i = 0; i < 2; ++i) {
      const auto a = (uint8x16_t)first.pair[i], b = (uint8x16_t)second.pair[i], c = (uint8x16_t)third.pair[i];
      even.pair[i] = (p == 0 ? first : third).pair[i] & 63;
      odd.pair[i] = p == 0 ? second.pair[i] & 63 : (Bytes)vsriq_n_u8(vsriq_n_u8(vshrq_n_u8(c, 2), b, 4), a, 6);
    }
  }
#endif
  void add_high(int64_t b, int p, int at, Weights& even, Weights& odd) const {
    const uint8_t* block = runs_of(b);
    constexpr uint8_t kMask = L::kBits == 5 ? 0x10 : 0x30;
#if defined(__ARM_NEON)
    for (int i = 0; i < 2; ++i) {
      const HighBits high = high_at(L::kBits, at + 2 * i, 2 * p, 0);
      const Bytes bits = load_16(block + high.byte);
      const auto insert = [](Bytes& to, Bytes from, int shift) {
        to = (Bytes)vbslq_u8(vdupq_n_u8(kMask), (uint8x16_t)(shift >= 0 ? from << shift : from >> -shift),
                             (uint8x16_t)to);
      };
      insert(even.pair[i], bits, 4 - high.shift);
      insert(odd.pair[i], bits, 4 - high.shift - (L::kBits - 4));
    }
#else
    const HighBits high = high_at(L::kBits, at, 2 * p, 0);
    const Weights bits = load_weights(block + high.byte);
    even |= shifted_bits(bits, 4 - high.shift, kMask);
    odd |= shifted_bits(bits, 4 - high.shift - (L::kBits - 4), kMask);
#endif
  }
  Floats field(int64_t group, int at, int which) const {
    const uint8_t* s = panel_ + L::scale_at(cols_, group);
    if constexpr (L::kScale == ScaleKind::kF16 || L::kScale == ScaleKind::kF16Zero) {
      return load_halves(s + 2 * (which * kPanelRows + at));
#if defined(__ARM_NEON)
    } else if constexpr (L::kScale == ScaleKind::kBF16) {
      return (Floats)vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(s + 2 * at)), 16));
#endif
    } else if constexpr (L::kScale == ScaleKind::kF32 || L::kScale == ScaleKind::kRow) {
      return load_floats(reinterpret_cast<const float*>(s) + which * kPanelRows + at);
    } else {
      const uint8_t* d = panel_ + L::super_at(cols_, group / (kPanelSuper / L::kGroup));
      return times(load_halves(d + 2 * (which * kPanelRows + at)), load_bytes(s + which * kPanelRows + at));
    }
  }

  const uint8_t* panel_;
  int64_t cols_;
};

// The same panel expanded to bytes and floats, for many rows: alike for all kinds of scales.
template <class L>
class ExpandedSource {
 public:
  using Layout = L;
  using Shape = ExpandedLayout<L>;
  static constexpr int64_t kFloats = Shape::kFloats, kField = Shape::kField;

  ExpandedSource(const std::byte* memory, int64_t cols)
      : runs_(reinterpret_cast<const uint8_t*>(memory)),
        floats_(reinterpret_cast<const float*>(memory + Shape::run_bytes(cols))) {}

  static int32_t start(int zero) { return kCentered ? 0 : -zero; }
  static Floats floats(Ints sum) { return to_floats(sum); }

  template <class From>
  static void fill(const PackedSource<From>& from, int64_t cols, int zero, std::byte* memory) {
    auto* runs = reinterpret_cast<uint8_t*>(memory);
    auto* floats = reinterpret_cast<float*>(memory + Shape::run_bytes(cols));
    __builtin_memset(runs + cols * kPanelRows, 0, static_cast<size_t>(Shape::run_bytes(cols) - cols * kPanelRows));
    constexpr int64_t kBytes = kRun * kPanelRows;
    for (int64_t b = 0; b < cols / kPanelBlock; ++b) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
      for (int64_t i = 0; i < From::kRunBytes; i += 64) __builtin_prefetch(from.runs_of(b) + (10 << 10) + i, 0, 1);
#endif
      for (int at = 0; at < kPanelRows; at += kVecRows)
        for (int p = 0; p < kRunPairs; ++p) {
          Weights even, odd;
          from.runs(b, p, at, even, odd);
          uint8_t* to = runs + b * 512 + 2 * kBytes * p + kRun * at;
          store_weights(to, centered<From>(even, zero));
          store_weights(to + kBytes, centered<From>(odd, zero));
        }
    }
    for (int64_t g = 0; g < L::groups(cols); ++g)
      for (int at = 0; at < kPanelRows; at += kVecRows) {
        put(floats + g * kFloats, at, from.scale(g, at));
        if constexpr (L::kMin) put(floats + g * kFloats + kField, at, from.min(g, at));
        if constexpr (Shape::kZeros) put(floats + g * kFloats + kField, at, (Floats)from.zeros(g, at));
      }
  }
  void runs(int64_t b, int p, int at, Weights& even, Weights& odd) const {
    const uint8_t* q = runs_ + b * 512 + 2 * kRun * kPanelRows * p + kRun * at;
    even = load_weights(q);
    odd = load_weights(q + kRun * kPanelRows);
  }
  const uint8_t* runs_at(int64_t k) const { return runs_ + k * kPanelRows; }
  Floats scale(int64_t group, int at) const { return load_floats(fields(group, 0) + at); }
  Floats min(int64_t group, int at) const { return load_floats(fields(group, 1) + at); }
  Ints zeros(int64_t group, int at) const { return load_ints(fields(group, 1) + at); }
  // Field 0, the scales, or 1, the mins or zero points, of all rows.
  const float* fields(int64_t group, int which) const { return floats_ + group * kFloats + which * kField; }

 private:
  static void put(float* field, int at, Floats values) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
    store_floats(field + 2 * at, (Floats)vzip1q_f32((float32x4_t)values, (float32x4_t)values));
    store_floats(field + 2 * at + 4, (Floats)vzip2q_f32((float32x4_t)values, (float32x4_t)values));
#else
    store_floats(field + at, values);
#endif
  }

  const uint8_t* runs_;
  const float* floats_;
};

// Expanded, kinds that differ in nothing but their scales are one.
template <class L>
using Expanded = ExpandedSource<PanelLayout<L::kBits, L::kGroup, L::kCoarse ? L::kScale : ScaleKind::kF32, L::kMin>>;

// The columns from `first` on that share a scale beside the data end there; all do where there are none.
inline int64_t end_of_scale(const PackedWeight& w, int64_t first) {
  return w.scale_cols == 0 || w.cols - first < w.scale_cols ? w.cols : first + w.scale_cols;
}
// Their scales, of 16 rows.
inline const float* scales_of(const PackedWeight& w, const uint8_t* panel, int64_t first) {
  return reinterpret_cast<const float*>(panel + w.scales_at) + first / w.scale_cols * kPanelRows;
}

// Calls f with the layout of a quantized kind; false for 16-bit floats.
template <class F>
bool with_layout(PanelKind kind, F&& f) {
  switch (kind) {
#define X(NAME, ...)                        \
  case PanelKind::k##NAME:                  \
    f(PanelLayoutOf<PanelKind::k##NAME>{}); \
    return true;
    INGOT_PANELS(X)
#undef X
    default:
      return false;
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
