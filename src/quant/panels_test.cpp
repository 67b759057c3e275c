#include "quant/panels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "quant/fields.h"

namespace ingot {
namespace {

// A weight of random values that owns its memory.
struct Stored {
  std::vector<std::byte> bytes;
  Weight weight;

  Stored(Format format, int64_t rows, int64_t cols) {
    std::mt19937_64 random(static_cast<uint64_t>(rows * cols));
    std::normal_distribution<float> normal;
    const int64_t row_bytes = format_row_bytes(format, cols);
    bytes.resize(static_cast<size_t>(rows * row_bytes));
    std::vector<float> values(static_cast<size_t>(cols));
    for (int64_t r = 0; r < rows; ++r) {
      for (float& value : values) value = normal(random);
      format_encode(format, values.data(), bytes.data() + r * row_bytes, cols);
    }
    weight.name = "test";
    weight.format = format;
    weight.rows = rows;
    weight.cols = cols;
    weight.data = bytes.data();
    weight.row_bytes = row_bytes;
  }
};

constexpr Format kFormats[] = {
#define X(NAME) Format::k##NAME,
    INGOT_FORMATS(X)
#undef X
};

float half(const std::byte* at) { return load_f16(reinterpret_cast<const uint8_t*>(at)); }
float whole(const std::byte* at) {
  float value;
  std::memcpy(&value, at, 4);
  return value;
}
int byte(const std::byte* at) { return static_cast<int8_t>(*at); }

// Field `which` (0 the scale, 1 the min) of row r for value k, as the header describes it.
template <class L>
float field(const std::byte* panel, int64_t cols, int64_t r, int64_t k, int which) {
  if constexpr (L::kScale == ScaleKind::kRow) return whole(panel + L::scale_at(cols, 0) + 4 * r);
  const std::byte* scales = panel + L::scale_at(cols, k / L::kGroup);
  if constexpr (L::kScale == ScaleKind::kF16 || L::kScale == ScaleKind::kF16Zero) {
    return half(scales + 2 * (which * kPanelRows + r));
  } else if constexpr (L::kScale == ScaleKind::kBF16) {
    const auto* at = reinterpret_cast<const uint8_t*>(scales) + 2 * r;
    return std::bit_cast<float>(static_cast<uint32_t>(load_u16(at)) << 16);
  } else if constexpr (L::kScale == ScaleKind::kF32) {
    return whole(scales + 4 * (which * kPanelRows + r));
  } else {
    const float d = half(panel + L::super_at(cols, k / kPanelSuper) + 2 * (which * kPanelRows + r));
    const float value = d * static_cast<float>(byte(scales + which * kPanelRows + r));
    return which == 1 ? -value : value;
  }
}

template <class L>
float value_at(const std::byte* panel, const PackedWeight& w, int64_t r, int64_t k) {
  const std::byte* block = panel + L::run_at(w.cols, k / kPanelBlock);
  const int64_t run = k % kPanelBlock / kRun, at = kRun * r + k % kRun, bytes = kRun * kPanelRows;
  int q = 0;
  if constexpr (L::kBits == 8) {
    q = static_cast<int>(block[bytes * run + at]) ^ L::kFlip;
  } else if constexpr (L::kThreeRuns) {
    const auto part = [&](int64_t i) { return static_cast<int>(block[bytes * i + at]); };
    q = run < 3 ? part(run) & 63 : part(0) >> 6 | part(1) >> 6 << 2 | part(2) >> 6 << 4;
  } else {
    const int both = static_cast<int>(block[bytes * (run / 2) + at]) ^ L::kFlip;
    q = run % 2 == 0 ? both & 15 : both >> 4;
    if constexpr (L::kBits > 4) {
      const HighBits high = high_at(L::kBits, r, run, k % kRun);
      q |= (static_cast<int>(block[high.byte]) >> high.shift & ((1 << (L::kBits - 4)) - 1)) << 4;
    }
  }
  if constexpr (L::kTable) q = kPanelTable[q];
  int zero = w.zero;
  if constexpr (L::kScale == ScaleKind::kF16Zero)
    zero = static_cast<int>(panel[L::scale_at(w.cols, k / L::kGroup) + 2 * kPanelRows + r]);
  const float product = field<L>(panel, w.cols, r, k, 0) * static_cast<float>(q - zero);
  if constexpr (L::kMin) return product + field<L>(panel, w.cols, r, k, 1);
  return product;
}

float float_at(const std::byte* panel, PanelKind kind, int64_t r, int64_t k) {
  if (kind == PanelKind::kF16) return half(panel + 2 * (k * kPanelRows + r));
  constexpr int64_t kSide = kBf16Group;
  const auto* at = reinterpret_cast<const uint8_t*>(panel) + 2 * ((k / kSide * kPanelRows + r) * kSide + k % kSide);
  return std::bit_cast<float>(static_cast<uint32_t>(load_u16(at)) << 16);
}

// Every value of every format that has panels is the one that its own header decodes, bit for bit.
TEST(Panels, HoldTheValuesOfTheFormat) {
  int with_panels = 0;
  for (const Format format : kFormats) {
    SCOPED_TRACE(format_name(format));
    const int64_t cols = std::max<int64_t>(format_block(format), 32) * (format_whole_rows(format) ? 11 : 2);
    const Stored stored(format, 21, cols);  // the second panel has 5 rows
    PackedWeight packed = panels_of(stored.weight);
    if (packed.kind != PanelKind::kNone) {
      ++with_panels;
      for (int64_t i = 0; i < packed.panels(); ++i) {
        std::vector<std::byte> panel(static_cast<size_t>(packed.panel_bytes), std::byte{0xee});
        pack_panel(stored.weight, packed, i, panel.data());
        for (int64_t r = 0; r < kPanelRows; ++r) {
          std::vector<float> want(static_cast<size_t>(cols), 0.0f);
          if (i * kPanelRows + r < stored.weight.rows) stored.weight.decode_row(i * kPanelRows + r, want.data());
          for (int64_t k = 0; k < cols; ++k) {
            float got = 0;
            if (!is_quantized(packed.kind)) {
              got = float_at(panel.data(), packed.kind, r, k);
            } else {
              visit_panel(packed.kind,
                          [&](auto layout) { got = value_at<decltype(layout)>(panel.data(), packed, r, k); });
            }
            ASSERT_EQ(got, want[static_cast<size_t>(k)]) << "panel " << i << " row " << r << " value " << k;
          }
        }
      }
    }
  }
  EXPECT_EQ(with_panels, 21);
}

// Every 8-bit float is exactly a bf16, its sign and what is not finite too.
TEST(Panels, EveryEightBitFloat) {
  for (const Format format : {Format::kF8_E4M3, Format::kF8_E5M2}) {
    Stored stored(format, 1, 256);
    for (size_t i = 0; i < 256; ++i) stored.bytes[i] = static_cast<std::byte>(i);
    const PackedWeight packed = panels_of(stored.weight);
    ASSERT_EQ(packed.kind, PanelKind::kBF16);
    std::vector<std::byte> panel(static_cast<size_t>(packed.panel_bytes), std::byte{0xee});
    pack_panel(stored.weight, packed, 0, panel.data());
    std::vector<float> want(256);
    stored.weight.decode_row(0, want.data());
    for (int64_t k = 0; k < 256; ++k) {
      const float got = float_at(panel.data(), packed.kind, 0, k), value = want[static_cast<size_t>(k)];
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(got)) << k;
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(value)) << k;
      }
    }
  }
}

// Behind the values, which stay as they are: the scale of each row for each 64 columns, of which the last are 22.
TEST(Panels, ScalesBesideTheData) {
  constexpr int64_t kRows = 21, kCols = 150, kScaleRows = 8, kScaleCols = 64, kAcross = 3;
  Stored stored(Format::kF8_E4M3, kRows, kCols);
  std::vector<float> scales(3 * kAcross);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.5f + static_cast<float>(i);
  Weight weight = stored.weight;
  weight.scale = scales.data();
  weight.scale_rows = kScaleRows;
  weight.scale_cols = kScaleCols;
  weight.scale_stride = kAcross;
  const PackedWeight packed = panels_of(weight);
  ASSERT_EQ(packed.kind, PanelKind::kBF16);
  EXPECT_EQ(packed.scale_cols, kScaleCols);
  EXPECT_EQ(packed.panel_bytes % 64, 0);
  EXPECT_EQ(packed.panel_bytes, packed.scales_at + kAcross * kPanelRows * 4);
  for (int64_t i = 0; i < packed.panels(); ++i) {
    std::vector<std::byte> panel(static_cast<size_t>(packed.panel_bytes), std::byte{0xee});
    pack_panel(weight, packed, i, panel.data());
    for (int64_t r = 0; r < kPanelRows; ++r) {
      const int64_t n = i * kPanelRows + r;
      std::vector<float> want(kCols, 0.0f);
      if (n < kRows) stored.weight.decode_row(n, want.data());
      for (int64_t k = 0; k < kCols; ++k)
        ASSERT_EQ(float_at(panel.data(), packed.kind, r, k), want[static_cast<size_t>(k)]) << n << " " << k;
      for (int64_t g = 0; g < kAcross; ++g) {
        const float scale = n < kRows ? scales[static_cast<size_t>(n / kScaleRows * kAcross + g)] : 0;
        EXPECT_EQ(whole(panel.data() + packed.scales_at + 4 * (g * kPanelRows + r)), scale) << n << " " << g;
      }
    }
  }
}

// Formats of integers, halves, and scales for fewer columns than kernels take at once.
TEST(Panels, NoneForOtherScalesBesideTheData) {
  const float scale = 1;
  for (const Format format : {Format::kQ8_0, Format::kF16, Format::kF32, Format::kF8_E4M3}) {
    Stored stored(format, 16, 64);
    stored.weight.scale = &scale;
    stored.weight.scale_rows = 16;
    stored.weight.scale_cols = 16;
    stored.weight.scale_stride = 4;
    EXPECT_EQ(panels_of(stored.weight).kind, PanelKind::kNone) << format_name(format);
  }
}

// Lines of the cache and what is left of a row, in a panel with all rows and in one with 5, in both orders of rows.
TEST(Panels, FloatsOfAnyWidth) {
  for (const Format format : {Format::kF16, Format::kBF16, Format::kF8_E4M3}) {
    for (const int64_t cols : {1, 8, 31, 32, 45, 64, 77, 128}) {
      Stored stored(format, 21, cols);
      for (const int64_t head_rows : {0, 6}) {
        stored.weight.head_rows = head_rows;
        stored.weight.rows = head_rows == 0 ? 21 : 18;
        const PackedWeight packed = panels_of(stored.weight);
        for (int64_t i = 0; i < packed.panels(); ++i) {
          std::vector<std::byte> panel(static_cast<size_t>(packed.panel_bytes), std::byte{0xee});
          pack_panel(stored.weight, packed, i, panel.data());
          for (int64_t r = 0; r < kPanelRows; ++r) {
            std::vector<float> want(static_cast<size_t>(cols), 0.0f);
            if (i * kPanelRows + r < stored.weight.rows) stored.weight.decode_row(i * kPanelRows + r, want.data());
            for (int64_t k = 0; k < cols; ++k) {
              ASSERT_EQ(float_at(panel.data(), packed.kind, r, k), want[static_cast<size_t>(k)])
                  << format_name(format) << " x " << cols << " panel " << i << " row " << r << " value " << k;
            }
          }
        }
      }
    }
  }
}

// Columns that are odd in number leave the second half of the last pair empty.
TEST(Panels, OddColumnsOfBf16) {
  const Stored stored(Format::kBF16, 3, 7);
  const PackedWeight packed = panels_of(stored.weight);
  std::vector<std::byte> panel(static_cast<size_t>(packed.panel_bytes), std::byte{0xee});
  pack_panel(stored.weight, packed, 0, panel.data());
  std::vector<float> want(7);
  stored.weight.decode_row(2, want.data());
  for (int64_t k = 0; k < 7; ++k)
    EXPECT_EQ(float_at(panel.data(), PanelKind::kBF16, 2, k), want[static_cast<size_t>(k)]);
  EXPECT_EQ(float_at(panel.data(), PanelKind::kBF16, 2, 7), 0.0f);
}

}  // namespace
}  // namespace ingot
