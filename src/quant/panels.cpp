#include "quant/panels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "quant/panel_blocks.h"

namespace ingot {

namespace {

void put(const uint8_t* from, std::byte* to) { std::memcpy(to, from, 2); }

// The scales of one block of row r.
template <class B, class L>
void put_scales(const uint8_t* in, int64_t first_group, int64_t r, std::byte* panel, int64_t cols) {
  const int64_t groups = B::kBlock / L::kGroup;
  std::byte* scales = panel + L::scale_at(cols, first_group);
  if constexpr (L::kScale == ScaleKind::kSuper) {
    std::byte* super = panel + L::super_at(cols, first_group / groups);
    put(B::d(in), super + 2 * r);
    if constexpr (L::kMin) put(B::dmin(in), super + 2 * (kPanelRows + r));
    for (int64_t g = 0; g < groups; ++g) {
      scales = panel + L::scale_at(cols, first_group + g);
      scales[r] = static_cast<std::byte>(B::group_scale(in, static_cast<int>(g)));
      if constexpr (L::kMin) scales[kPanelRows + r] = static_cast<std::byte>(B::group_min(in, static_cast<int>(g)));
    }
  } else if constexpr (L::kScale == ScaleKind::kF32) {
    const float scale = B::scale(in);
    std::memcpy(scales + 4 * r, &scale, 4);
  } else {
    put(B::scale(in), scales + 2 * r);
    if constexpr (L::kMin) put(B::min(in), scales + 2 * (kPanelRows + r));
  }
}

using Run = std::conditional_t<kRun == 8, uint64_t, uint32_t>;  // kRun bytes

// 32 values of row r, to the runs of their block.
template <class L>
void put_runs(const uint8_t* q, int64_t r, std::byte* out) {
  constexpr int64_t kRuns = kPanelBlock / kRun, kBytes = kPanelRows * kRun;
  constexpr Run kOnes = static_cast<Run>(0x0101010101010101u), kFlip = L::kFlip * kOnes;
  Run runs[kRuns];
  std::memcpy(runs, q, kPanelBlock);
  std::byte* to = out + kRun * r;
  if constexpr (L::kBits == 8) {
    for (int64_t i = 0; i < kRuns; ++i) {
      const Run run = runs[i] ^ kFlip;
      std::memcpy(to + kBytes * i, &run, kRun);
    }
    return;
  }
  if constexpr (L::kThreeRuns) {
    for (int64_t i = 0; i < 3; ++i) {
      const Run run = runs[i] | (runs[3] >> (2 * i) & 3 * kOnes) << 6;
      std::memcpy(to + kBytes * i, &run, kRun);
    }
    return;
  }
  for (int64_t i = 0; i < kRuns / 2; ++i) {
    const Run both = ((runs[2 * i] & 15 * kOnes) | (runs[2 * i + 1] & 15 * kOnes) << 4) ^ kFlip;
    std::memcpy(to + kBytes * i, &both, kRun);
  }
  if constexpr (L::kBits > 4) {
    constexpr Run kHigh = ((1u << L::kBits) - 16) / 16 * kOnes;
    for (int64_t i = 0; i < kRuns; ++i) {
      const HighBits at = high_at(L::kBits, r, i, 0);
      std::byte* byte = out + at.byte;
      Run high = 0;
      if (at.shift != 0) std::memcpy(&high, byte, kRun);  // what other runs, and rows, have there
      high |= (runs[i] >> 4 & kHigh) << at.shift;
      std::memcpy(byte, &high, kRun);
    }
  }
}

template <class B, class L>
void pack_quantized(const Weight& w, int64_t first, int64_t rows, std::byte* out) {
  constexpr int64_t kSubs = B::kBlock / kPanelBlock;
  for (int64_t r = 0; r < rows; ++r) {
    const auto* in = reinterpret_cast<const uint8_t*>(w.row(first + r));
    for (int64_t b = 0; b < w.cols / B::kBlock; ++b, in += B::kBytes) {
      put_scales<B, L>(in, b * B::kBlock / L::kGroup, r, out, w.cols);
      for (int64_t sub = 0; sub < kSubs; ++sub) {
        uint8_t q[32];
        B::unpack(in, static_cast<int>(sub), q);
        put_runs<L>(q, r, out + L::run_at(w.cols, b * kSubs + sub));
      }
    }
  }
}

// Formats of whole rows.
template <class B, class L>
void pack_rows(const Weight& w, int64_t first, int64_t rows, std::byte* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const auto* in = reinterpret_cast<const uint8_t*>(w.row(first + r));
    for (int64_t g = 0; g < L::groups(w.cols); ++g) {
      const uint8_t* head = B::row_head(in, g * L::kGroup);
      std::byte* scales = out + L::scale_at(w.cols, g);
      constexpr int64_t kSize = L::kScale == ScaleKind::kRow ? 4 : 2;
      std::memcpy(scales + kSize * r, head, kSize);
      if constexpr (L::kScale == ScaleKind::kF16Zero) scales[2 * kPanelRows + r] = static_cast<std::byte>(head[2]);
    }
    for (int64_t b = 0; b < w.cols / kPanelBlock; ++b) {
      uint8_t q[32];
      B::unpack(B::row_q(in, b * kPanelBlock), 0, q);
      put_runs<L>(q, r, out + L::run_at(w.cols, b));
    }
  }
}

// 16-bit floats, `pair` values of a row side by side.
void pack_floats(const Weight& w, int64_t first, int64_t rows, int64_t pair, std::byte* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* in = w.row(first + r);
    for (int64_t k = 0; k < w.cols; ++k)
      std::memcpy(out + 2 * ((k / pair * kPanelRows + r) * pair + k % pair), in + 2 * k, 2);
  }
}

int64_t float_panel_bytes(int64_t cols) { return (cols + kBf16Group - 1) / kBf16Group * kBf16Group * kPanelRows * 2; }

}  // namespace

PackedWeight panels_of(const Weight& weight) {
  PackedWeight packed{.rows = weight.rows, .cols = weight.cols};
  if (weight.scale != nullptr || weight.cols <= 0) return packed;
  if (weight.format == Format::kF16 || weight.format == Format::kBF16) {
    packed.kind = weight.format == Format::kF16 ? PanelKind::kF16 : PanelKind::kBF16;
    packed.panel_bytes = float_panel_bytes(weight.cols);
    return packed;
  }
  panel_block::visit(
      weight.format,
      [&](auto block) {
        using B = decltype(block);
        packed.kind = B::kKind;
        packed.zero = B::kZero;
        visit_panel(B::kKind, [&](auto layout) { packed.panel_bytes = layout.bytes(weight.cols); });
      },
      [] {});
  return packed;
}

void pack_panel(const Weight& weight, const PackedWeight& packed, int64_t i, std::byte* out) {
  const int64_t first = i * kPanelRows;
  const int64_t rows = std::min(kPanelRows, weight.rows - first);
  // Only what no row writes has to be cleared.
  if (rows < kPanelRows || weight.cols % kBf16Group != 0) std::memset(out, 0, static_cast<size_t>(packed.panel_bytes));
  if (!is_quantized(packed.kind)) {
    pack_floats(weight, first, rows, packed.kind == PanelKind::kBF16 ? kBf16Group : 1, out);
    return;
  }
  panel_block::visit(
      weight.format,
      [&](auto block) {
        using B = decltype(block);
        if constexpr (is_coarse(B::kKind)) {
          pack_rows<B, PanelLayoutOf<B::kKind>>(weight, first, rows, out);
        } else {
          pack_quantized<B, PanelLayoutOf<B::kKind>>(weight, first, rows, out);
        }
      },
      [] {});
}

}  // namespace ingot
