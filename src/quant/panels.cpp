#include "quant/panels.h"

#include <algorithm>
#include <cstring>

#include "quant/panel_blocks.h"

namespace ingot {

namespace {

void put(const uint8_t* from, std::byte* to) { std::memcpy(to, from, 2); }

// The scales of one block of row r.
template <class B, class L>
void put_scales(const uint8_t* in, int64_t first_group, int64_t r, std::byte* panel, int64_t cols) {
  const int64_t groups = B::kBlock / L::kGroup;
  std::byte* scales = panel + L::scales_at(cols) + first_group * L::kScaleBytes;
  if constexpr (L::kScale == ScaleKind::kSuper) {
    std::byte* super = panel + first_group / groups * L::kSuperBytes;
    put(B::d(in), super + 2 * r);
    if constexpr (L::kMin) put(B::dmin(in), super + 2 * (kPanelRows + r));
    for (int64_t g = 0; g < groups; ++g, scales += L::kScaleBytes) {
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

// 32 values of row r.
template <class L>
void put_quads(const uint8_t* q, int64_t block, int64_t r, std::byte* quads) {
  uint32_t quad[8];
  std::memcpy(quad, q, sizeof(quad));
  std::byte* to = quads + block * L::kQuadBytes + 4 * r;
  if constexpr (L::kBits == 8) {
    for (int p = 0; p < 8; ++p) std::memcpy(to + 64 * p, &quad[p], 4);
    return;
  }
  constexpr uint32_t kLow = 0x0f0f0f0f, kHigh = ((1u << L::kBits) - 16) / 16 * 0x01010101;
  for (int p = 0; p < 4; ++p) {
    const uint32_t both = (quad[2 * p] & kLow) | (quad[2 * p + 1] & kLow) << 4;
    std::memcpy(to + 64 * p, &both, 4);
  }
  constexpr int kMore = L::kBits - 4;
  for (int i = 0; i < kMore; ++i) {
    uint32_t high = 0;
    for (int j = 0; j < 8 / kMore; ++j) high |= (quad[i * 8 / kMore + j] >> 4 & kHigh) << j * kMore;
    std::memcpy(to + 256 + 64 * i, &high, 4);
  }
}

template <class B, class L>
void pack_quantized(const Weight& w, int64_t first, int64_t rows, std::byte* out) {
  constexpr int64_t kSubs = B::kBlock / kPanelBlock;
  std::byte* quads = out + L::quads_at(w.cols);
  for (int64_t r = 0; r < rows; ++r) {
    const auto* in = reinterpret_cast<const uint8_t*>(w.row(first + r));
    for (int64_t b = 0; b < w.cols / B::kBlock; ++b, in += B::kBytes) {
      put_scales<B, L>(in, b * B::kBlock / L::kGroup, r, out, w.cols);
      for (int64_t sub = 0; sub < kSubs; ++sub) {
        uint8_t q[32];
        B::unpack(in, static_cast<int>(sub), q);
        put_quads<L>(q, b * kSubs + sub, r, quads);
      }
    }
  }
}

// Formats of whole rows.
template <class B, class L>
void pack_rows(const Weight& w, int64_t first, int64_t rows, std::byte* out) {
  std::byte* quads = out + L::quads_at(w.cols);
  for (int64_t r = 0; r < rows; ++r) {
    const auto* in = reinterpret_cast<const uint8_t*>(w.row(first + r));
    for (int64_t g = 0; g < L::groups(w.cols); ++g) {
      const uint8_t* head = B::row_head(in, g * L::kGroup);
      std::byte* scales = out + L::scales_at(w.cols) + g * L::kScaleBytes;
      constexpr int64_t kSize = L::kScale == ScaleKind::kRow ? 4 : 2;
      std::memcpy(scales + kSize * r, head, kSize);
      if constexpr (L::kScale == ScaleKind::kF16Zero) scales[2 * kPanelRows + r] = static_cast<std::byte>(head[2]);
    }
    for (int64_t b = 0; b < w.cols / kPanelBlock; ++b) {
      uint8_t q[32];
      B::unpack(B::row_q(in, b * kPanelBlock), 0, q);
      put_quads<L>(q, b, r, quads);
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
