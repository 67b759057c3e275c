#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "ops/linear/panel_orders_test_support.h"
#include "ops/ops_test_support.h"
#include "quant/panels.h"
#include "tensor/dtype.h"

// Tiles whose instructions are in an order that was searched for (tools/search_orders.py) have the bits of the plain
// tiles beside them, for every kind of weights and number of rows.

namespace ingot {
namespace {

#if defined(__aarch64__)

const cpu::PanelKernels* i8mm_panels() {
  for (const cpu::Kernels* set : cpu::available_kernels())
    if (std::string_view(set->panels->name) == "i8mm") return set->panels;
  return nullptr;
}

// A panel of any bits, with scales, mins and zero points of usual size.
class RandomPanel {
 public:
  RandomPanel(PanelKind kind, int64_t cols, uint64_t seed) : random_(seed) {
    visit_panel(kind, [&](auto layout) {
      using L = decltype(layout);
      memory_.resize(static_cast<size_t>(L::bytes(cols) + 64));
      auto* at = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64);
      for (int64_t i = 0; i < L::bytes(cols); ++i) at[i] = static_cast<std::byte>(random_.below(256));
      for (int64_t g = 0; g < L::groups(cols); ++g) put_scales<L>(at + L::scale_at(cols, g));
      for (int64_t s = 0; L::kSuperBytes > 0 && s < L::supers(cols); ++s)
        put_halves(at + L::super_at(cols, s), L::kSuperBytes / 2);
      const bool from_zero = L::kMin || L::kTable || L::kScale == ScaleKind::kF16Zero;
      weight_ = {.kind = kind,
                 .zero = from_zero ? 0 : 1 << (L::kBits - 1),
                 .rows = kPanelRows,
                 .cols = cols,
                 .panel_bytes = L::bytes(cols),
                 .data = at};
    });
  }
  const PackedWeight& weight() const { return weight_; }

 private:
  void put_halves(std::byte* to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const uint16_t half = f32_to_f16(0.01f * random_.normal());
      std::memcpy(to + 2 * i, &half, 2);
    }
  }
  template <class L>
  void put_scales(std::byte* to) {
    if (L::kScale == ScaleKind::kF16) put_halves(to, L::kScaleBytes / 2);
    if (L::kScale == ScaleKind::kF16Zero) put_halves(to, kPanelRows);
    for (int64_t i = 0; L::kScale == ScaleKind::kBF16 && i < kPanelRows; ++i) {
      const uint16_t scale = f32_to_bf16(0.01f * random_.normal());
      std::memcpy(to + 2 * i, &scale, 2);
    }
    // With mins those of a super-block have 6 bits, without they are signed bytes.
    for (int64_t i = 0; L::kScale == ScaleKind::kSuper && L::kMin && i < L::kScaleBytes; ++i) to[i] &= std::byte{63};
    if (L::kScale == ScaleKind::kF32 || L::kScale == ScaleKind::kRow)
      for (int64_t i = 0; i < L::kScaleBytes / 4; ++i) {
        const float scale = 0.01f * random_.normal();
        std::memcpy(to + 4 * i, &scale, 4);
      }
  }

  test::Random random_;
  std::vector<std::byte> memory_;
  PackedWeight weight_;
};

// Rows of x in every form that the kernels read.
class RandomRows {
 public:
  RandomRows(const cpu::PanelKernels& k, int64_t rows, int64_t cols, uint64_t seed) {
    test::Random random(seed);
    std::vector<float> x(static_cast<size_t>(cols));
    for (int64_t r = 0; r < rows; ++r) {
      for (float& v : x) v = random.normal();
      Row& row = rows_.emplace_back(cols);
      k.quantize(x.data(), cols, row.q.data(), row.wide.data(), row.blocks.data());
      k.quantize_coarse(x.data(), cols, row.coarse_q.data(), row.coarse_wide.data(), row.coarse_blocks.data(), nullptr);
    }
    for (Row& row : rows_)
      x_.push_back({.q = row.q.data(),
                    .wide = row.wide.data(),
                    .blocks = row.blocks.data(),
                    .bf16 = nullptr,
                    .f16 = nullptr,
                    .values = nullptr,
                    .coarse = {row.coarse_q.data(), row.coarse_wide.data(), row.coarse_blocks.data()}});
    for (int64_t r = 0; r < rows; r += k.tile_rows)
      for (bool coarse : {false, true}) pack(k, r, std::min(k.tile_rows, rows - r), cols, coarse);
  }
  const cpu::XRow* data() const { return x_.data(); }

 private:
  struct Row {
    explicit Row(int64_t cols)
        : q(static_cast<size_t>(cols)),
          coarse_q(q.size()),
          wide(q.size()),
          coarse_wide(q.size()),
          blocks(q.size() / 32),
          coarse_blocks((q.size() + 127) / 128) {}
    std::vector<int8_t> q, coarse_q;
    std::vector<int16_t> wide, coarse_wide;
    std::vector<cpu::XBlock> blocks, coarse_blocks;
  };

  void pack(const cpu::PanelKernels& k, int64_t first, int64_t n, int64_t cols, bool coarse) {
    std::vector<std::byte>& memory = tiles_.emplace_back(static_cast<size_t>(k.tile_bytes(cols) + 64));
    auto* tile = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
    k.pack_tile(&x_[static_cast<size_t>(first)], n, cols, coarse, tile);
    for (int64_t r = first; r < first + n; ++r)
      (coarse ? x_[static_cast<size_t>(r)].coarse_tile : x_[static_cast<size_t>(r)].tile) = tile;
  }

  std::vector<Row> rows_;
  std::vector<cpu::XRow> x_;
  std::vector<std::vector<std::byte>> tiles_;
};

constexpr PanelKind kKinds[] = {
#define X(NAME, ...) PanelKind::k##NAME,
    INGOT_PANELS(X)
#undef X
};

void expect_equal(const cpu::TilePair& tiles, int64_t least_rows, int64_t most_rows) {
  const cpu::PanelKernels* k = i8mm_panels();
  if (k == nullptr) GTEST_SKIP() << "this CPU has no i8mm";
  for (PanelKind kind : kKinds)
    for (int64_t cols : {256, 768, 2048})
      for (int64_t rows = least_rows; rows <= most_rows; ++rows) {
        SCOPED_TRACE(fmt::format("kind {}, {} columns, {} rows", static_cast<int>(kind), cols, rows));
        const RandomPanel panel(kind, cols, static_cast<uint64_t>(cols + rows));
        const RandomRows x(*k, rows, cols, 7);
        std::vector<std::byte> expanded(static_cast<size_t>(cpu::expanded_bytes(panel.weight(), 1)));
        k->expand({&panel.weight(), 0, 1}, expanded.data());
        std::vector<float> ordered(static_cast<size_t>(rows * kPanelRows)), plain(ordered.size());
        tiles.ordered(panel.weight(), expanded.data(), x.data(), rows, ordered.data());
        tiles.plain(panel.weight(), expanded.data(), x.data(), rows, plain.data());
        ASSERT_EQ(std::memcmp(ordered.data(), plain.data(), ordered.size() * sizeof(float)), 0);
      }
}

TEST(PanelOrders, OneRow) { expect_equal(cpu::kSoloTiles, 1, 1); }
TEST(PanelOrders, PackedPanels) { expect_equal(cpu::kPackedTiles, 2, 8); }
TEST(PanelOrders, ExpandedPanels) { expect_equal(cpu::kExpandedTiles, 1, 6); }

#else

TEST(PanelOrders, OnAArch64) { GTEST_SKIP() << "this CPU has no i8mm"; }

#endif

}  // namespace
}  // namespace ingot
