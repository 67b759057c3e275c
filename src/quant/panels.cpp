#include "quant/panels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "quant/panel_blocks.h"

namespace ingot {

namespace {

void put(const uint8_t* from, std::byte* to) { std::memcpy(to, from, 2); }

// The scales of one block of row r. kF32: times `beside`, the row's scale beside the data.
template <class B, class L>
void put_scales(const uint8_t* in, int64_t first_group, int64_t r, float beside, std::byte* panel, int64_t cols) {
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
    for (int64_t g = 0; g < groups; ++g) {
      const float scale = B::scale(in, static_cast<int>(g)) * beside;
      std::memcpy(panel + L::scale_at(cols, first_group + g) + 4 * r, &scale, 4);
    }
  } else if constexpr (L::kScale == ScaleKind::kBF16) {
    const uint16_t scale = f32_to_bf16(B::scale(in));  // powers of two: exact
    std::memcpy(scales + 2 * r, &scale, 2);
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
    const float beside = w.scale == nullptr ? 1.0f : w.scale[(first + r) / w.scale_rows * w.scale_stride];
    for (int64_t b = 0; b < w.cols / B::kBlock; ++b, in += B::kBytes) {
      put_scales<B, L>(in, b * B::kBlock / L::kGroup, r, beside, out, w.cols);
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

constexpr int64_t kLine = 32;  // values of a row in a line of the cache

// bf16, kBf16Group values of a row side by side. line(in, k, n, room) gives n values of the row at `in` from k on, in
// `room` where they must be made. A line of each row after the other: what is read and written for one line of all rows
// stays in the L1 cache, though rows lie 4 KiB apart.
template <class Line>
void pack_bf16(const Weight& w, int64_t first, int64_t rows, std::byte* out, Line line) {
  constexpr int64_t kBytes = 2 * kBf16Group;
  const std::byte* in[kPanelRows];
  for (int64_t r = 0; r < rows; ++r) in[r] = w.row(first + r);
  for (int64_t k = 0; k < w.cols; k += kLine, out += 2 * kLine * kPanelRows) {
    const int64_t n = std::min(kLine, w.cols - k);
    for (int64_t r = 0; r < rows; ++r) {
      uint16_t room[kLine];
      const std::byte* from = line(in[r], k, n, room);
      if (n == kLine) {
        for (int64_t i = 0; i < kLine / kBf16Group; ++i)
          std::memcpy(out + (i * kPanelRows + r) * kBytes, from + i * kBytes, kBytes);
      } else {
        for (int64_t i = 0; i < n; ++i)
          std::memcpy(out + (i / kBf16Group * kPanelRows + r) * kBytes + 2 * (i % kBf16Group), from + 2 * i, 2);
      }
    }
  }
}

using Eight = uint16_t __attribute__((vector_size(16)));

// The values of two vectors in turn, of the first and of the second halves.
void zip(Eight& a, Eight& b) {
  const Eight low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  b = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  a = low;
}

// f16 of a whole panel in blocks of 8 x 8, turned around in registers. Returns how many columns those are.
int64_t pack_f16_blocks(const Weight& w, int64_t first, std::byte* out) {
  int64_t k = 0;
  for (; k + 8 <= w.cols; k += 8, out += 2 * 8 * kPanelRows) {
    for (int64_t half = 0; half < kPanelRows; half += 8) {
      Eight v[8];
      for (int64_t r = 0; r < 8; ++r) std::memcpy(&v[r], w.row(first + half + r) + 2 * k, sizeof(Eight));
      // Rows i and i + 4 in turn, thrice: then v holds the columns.
      for (int stage = 0; stage < 3; ++stage) {
        const Eight from[8] = {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
        for (int64_t i = 0; i < 4; ++i) {
          v[2 * i] = from[i];
          v[2 * i + 1] = from[i + 4];
          zip(v[2 * i], v[2 * i + 1]);
        }
      }
      for (int64_t c = 0; c < 8; ++c) std::memcpy(out + 2 * (c * kPanelRows + half), &v[c], sizeof(Eight));
    }
  }
  return k;
}

void pack_f16(const Weight& w, int64_t first, int64_t rows, std::byte* out) {
  const int64_t done = rows == kPanelRows ? pack_f16_blocks(w, first, out) : 0;
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* in = w.row(first + r);
    for (int64_t k = done; k < w.cols; ++k) std::memcpy(out + 2 * (k * kPanelRows + r), in + 2 * k, 2);
  }
}

// An 8-bit float as bf16, exactly: that has more bits of both exponent and mantissa.
template <class F>
std::array<uint16_t, 256> bf16_of() {
  std::array<uint16_t, 256> table;
  for (size_t i = 0; i < table.size(); ++i) {
    const auto code = static_cast<uint8_t>(i);
    float value;
    F::decode(&code, &value);
    table[i] = f32_to_bf16(value);
  }
  return table;
}

void pack_16_bits(const Weight& w, PanelKind kind, int64_t first, int64_t rows, std::byte* out) {
  static const std::array<uint16_t, 256> e4m3 = bf16_of<F8_E4M3>(), e5m2 = bf16_of<F8_E5M2>();
  if (kind == PanelKind::kF16) return pack_f16(w, first, rows, out);
  const auto of_8_bits = [&](const std::array<uint16_t, 256>& table) {
    pack_bf16(w, first, rows, out, [&](const std::byte* in, int64_t k, int64_t n, uint16_t* room) {
      for (int64_t i = 0; i < n; ++i) room[i] = table[static_cast<size_t>(in[k + i])];
      return reinterpret_cast<const std::byte*>(room);
    });
  };
  if (w.format == Format::kF8_E4M3) return of_8_bits(e4m3);
  if (w.format == Format::kF8_E5M2) return of_8_bits(e5m2);
  pack_bf16(w, first, rows, out, [](const std::byte* in, int64_t k, int64_t, uint16_t*) { return in + 2 * k; });
}

// The scales beside the data of a panel's rows.
void pack_scales(const Weight& w, const PackedWeight& packed, int64_t first, int64_t rows, std::byte* panel) {
  if (packed.scale_cols == 0) return;
  for (int64_t r = 0; r < rows; ++r) {
    const float* scale = w.scale + (first + r) / w.scale_rows * w.scale_stride;
    std::byte* to = panel + packed.scales_at + 4 * r;
    for (int64_t k = 0; k < w.cols; k += packed.scale_cols, ++scale, to += 4 * kPanelRows) std::memcpy(to, scale, 4);
  }
}

bool becomes_bf16(Format format) {
  return format == Format::kBF16 || format == Format::kF8_E4M3 || format == Format::kF8_E5M2;
}

int64_t float_panel_bytes(int64_t cols) { return (cols + kBf16Group - 1) / kBf16Group * kBf16Group * kPanelRows * 2; }

}  // namespace

PackedWeight panels_of(const Weight& weight) {
  PackedWeight packed{.rows = weight.rows, .cols = weight.cols};
  if (weight.cols <= 0) return packed;
  if (becomes_bf16(weight.format)) {
    const int64_t values = float_panel_bytes(weight.cols);
    packed.panel_bytes = values;
    if (weight.scale != nullptr) {
      CHECK(weight.scale_rows > 0 && weight.scale_cols > 0, "scales of {} x {} in '{}'", weight.scale_rows,
            weight.scale_cols, weight.name);
      const int64_t cols = std::min(weight.scale_cols, weight.cols);
      if (cols < weight.cols && cols % kScaleStep != 0) return packed;
      packed.scale_cols = cols;
      packed.scales_at = values;
      packed.panel_bytes += (weight.cols + cols - 1) / cols * kPanelRows * 4;
    }
    packed.kind = PanelKind::kBF16;
    return packed;
  }
  // Of groups that have scales of their own those beside the data are a row's.
  if (weight.scale != nullptr && (weight.format != Format::kNVFP4 || weight.scale_cols < weight.cols)) return packed;
  if (weight.format == Format::kF16) {
    packed.kind = PanelKind::kF16;
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
    pack_16_bits(weight, packed.kind, first, rows, out);
    pack_scales(weight, packed, first, rows, out);
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
