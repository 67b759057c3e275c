// Rows of x on their way into a product: gathered, normed, then int8, bf16 or f16 where the weights' panels read that.
#include <algorithm>
#include <numeric>

#include "cpu/rms_norm_row.h"
#include "matmul/cpu/kernels.h"
#include "matmul/cpu/tasks.h"

namespace ingot::cpu {
XRows::Layout::Layout(const Product& product, XKinds kinds, int64_t n) : rows(n) {
  const PanelKernels& k = *kernels().panels;
  const int64_t cols = product.cols();
  const bool bytes = kinds.quantized || kinds.coarse;
  if (bytes) {
    blocks = whole_lines(cols / kPanelBlock * static_cast<int64_t>(sizeof(XBlock)));
    q = whole_lines(cols);
    // Sets with runs of 8 want it for a row alone.
    if (k.wide && (kRun == 4 || rows == 1)) wide = whole_lines(2 * cols);
  }
  if (kinds.bf16 && k.to_bf16 != nullptr) (k.bf16_pairs ? pair : bf16) = whole_lines((k.bf16_pairs ? 4 : 2) * cols);
  if (kinds.f16 && k.to_f16 != nullptr) f16 = whole_lines(2 * cols);
  if (product.input.norm != nullptr || product.input.scale != nullptr) values = whole_lines(4 * cols);
  coarse = kinds.quantized ? blocks + q + wide : 0;
  quarters_at = coarse + blocks + q + wide;
  bf16_at = blocks + q + wide + (kinds.coarse ? coarse : 0);
  if (kinds.coarse && k.supers) bf16_at = quarters_at + blocks;
  f16_at = bf16_at + bf16;
  values_at = f16_at + f16;
  row = values_at + values;
  // An odd number of cache lines: at a multiple of 4096 bytes the rows of a tile would share one set of the cache.
  if (row / 64 % 2 == 0) row += 64;
  if (pair > 0 && pair / 64 % 2 == 0) pair += 64;
  fields = rows > kFewRows ? kinds.many_fields : kinds.fields;
  if (bytes && k.pack_tile != nullptr && rows > k.tiles_above) {
    if (kinds.quantized) fine_tiles = tiles_of(cols, false);
    if (kinds.coarse) coarse_tiles = tiles_of(cols, true);
  }
  if (kinds.outer && rows >= kOuterFrom) {
    const OuterDots& outer = kernels().outer;
    outer_tiles.n = (rows + outer.rows - 1) / outer.rows;
    outer_tiles.step = outer.tile(cols) * static_cast<int64_t>(sizeof(float));
    outer_tiles.bytes = whole_lines(outer_tiles.n * outer_tiles.step);
  }
  first_row = whole_lines(rows * static_cast<int64_t>(sizeof(XRow)));
  first_pair = first_row + rows * row;
  first_tile = first_pair + (rows + 1) / 2 * pair;
}

XRows::Layout::Tiles XRows::Layout::tiles_of(int64_t cols, bool coarse_x) const {
  const PanelKernels& k = *kernels().panels;
  Tiles t{.n = (rows + k.tile_rows - 1) / k.tile_rows};
  t.step = whole_lines(k.tile_bytes(cols));
  t.bytes = t.n * t.step;
  // More rows than that read expanded panels only.
  if (k.piece_blocks == nullptr || rows <= kFewRows) return t;
  const int64_t piece = k.piece_blocks(cols, coarse_x);
  t.step = whole_lines(k.tile_piece_bytes(cols, fields, coarse_x));
  t.gap = t.n * t.step;
  t.bytes = (cols / kPanelBlock + piece - 1) / piece * t.gap;
  return t;
}

int64_t XRows::bytes(const Product& product, XKinds kinds, int64_t rows) {
  const Layout layout(product, kinds, rows);
  return layout.first_tile + layout.fine_tiles.bytes + layout.coarse_tiles.bytes + layout.outer_tiles.bytes;
}

XRows::XRows(const Product& product, XKinds kinds, int64_t rows, std::byte* memory)
    : product_(product), kinds_(kinds), layout_(product, kinds, rows), memory_(memory) {}

const float* XRows::open(int64_t t, float* room) const {
  const ProductInput& in = product_.input;
  const int64_t n = product_.cols();
  const float* x = in.x.f32(in.gather != nullptr ? in.gather[t] : t);
  if (in.scale != nullptr) {
    for (int64_t i = 0; i < n; ++i) room[i] = x[i] * in.scale[t];
    return room;
  }
  if (in.norm == nullptr) return x;
  if (in.add) {
    const float* add = in.add.f32(t);
    if (in.add_norm != nullptr) {
      rms_norm_row(add, in.add_norm, room, n, in.add_eps);
      add = room;
    }
    float* sum = in.sum.f32(t);
    for (int64_t i = 0; i < n; ++i) sum[i] = x[i] + add[i];
    x = sum;
  }
  rms_norm_row(x, in.norm, room, n, in.eps);
  return room;
}

void XRows::make_row(int64_t t) const {
  const PanelKernels& k = *kernels().panels;
  std::byte* memory = memory_ + layout_.first_row + t * layout_.row;
  const float* values = open(t, reinterpret_cast<float*>(memory + layout_.values_at));
  XRow row{};
  row.values = values;
  // The bytes of one encoding, at `at`.
  const auto quantize = [&](auto* encode, std::byte* at, auto... quarters) {
    auto* q = reinterpret_cast<int8_t*>(at + layout_.blocks);
    auto* wide = layout_.wide > 0 ? reinterpret_cast<int16_t*>(at + layout_.blocks + layout_.q) : nullptr;
    auto* blocks = reinterpret_cast<XBlock*>(at);
    encode(values, product_.cols(), q, wide, blocks, quarters...);
    return XCoarse{q, wide, blocks, quarters...};
  };
  if (layout_.bf16 > 0) {
    auto* bf16 = reinterpret_cast<uint16_t*>(memory + layout_.bf16_at);
    k.to_bf16(values, product_.cols(), bf16);
    row.bf16 = bf16;
  }
  if (layout_.pair > 0) {
    auto* both = reinterpret_cast<uint16_t*>(memory_ + layout_.first_pair + t / 2 * layout_.pair);
    k.to_bf16(values, product_.cols(), both + 4 * (t % 2));
    if (t % 2 == 0 && t + 1 == layout_.rows) k.to_bf16(values, product_.cols(), both + 4);
    row.bf16 = both;
  }
  if (layout_.f16 > 0) {
    auto* f16 = reinterpret_cast<uint16_t*>(memory + layout_.f16_at);
    row.f16_scale = k.to_f16(values, product_.cols(), f16);
    row.f16 = f16;
  }
  if (kinds_.quantized) {
    const XCoarse fine = quantize(k.quantize, memory);
    row.q = fine.q;
    row.wide = fine.wide;
    row.blocks = fine.blocks;
  }
  if (kinds_.coarse) {
    auto* quarters = k.supers ? reinterpret_cast<XBlock*>(memory + layout_.quarters_at) : nullptr;
    row.coarse = quantize(k.quantize_coarse, memory + layout_.coarse, quarters);
  }
  reinterpret_cast<XRow*>(memory_)[t] = row;
}

// One thread norms and quantizes a row of 4096 in about 2 us, as long as it takes to hand it to another.
int64_t XRows::at_once() const {
  const int64_t tile = layout_.fine_tiles.n + layout_.coarse_tiles.n > 0 ? kernels().panels->tile_rows : 4;
  return layout_.outer_tiles.n > 0 ? std::lcm(tile, kernels().outer.rows) : tile;
}

// The tiles of rows [t, t + n), behind those of the encodings.
void XRows::pack_outer(int64_t t, int64_t n) const {
  const OuterDots& outer = kernels().outer;
  std::byte* first = memory_ + layout_.first_tile + layout_.fine_tiles.bytes + layout_.coarse_tiles.bytes;
  XRow* rows = reinterpret_cast<XRow*>(memory_) + t;
  const float* values[16];
  for (int64_t i = 0; i < n; i += outer.rows) {
    const int64_t some = std::min(outer.rows, n - i);
    for (int64_t r = 0; r < some; ++r) values[r] = rows[i + r].values;
    auto* tile = reinterpret_cast<float*>(first + (t + i) / outer.rows * layout_.outer_tiles.step);
    outer.pack_x(values, some, product_.cols(), tile);
    rows[i].outer = tile;
  }
}

void XRows::make(int64_t t, int64_t n) const {
  for (int64_t i = t; i < t + n; ++i) make_row(i);
  const PanelKernels& k = *kernels().panels;
  XRow* rows = reinterpret_cast<XRow*>(memory_) + t;
  const auto pack = [&](const Layout::Tiles& tiles, bool coarse, std::byte* first) {
    if (tiles.n == 0) return;
    for (int64_t from = 0; from < n; from += k.tile_rows) {
      const int64_t some = std::min<int64_t>(k.tile_rows, n - from);
      std::byte* tile = first + (t + from) / k.tile_rows * tiles.step;
      for (int64_t i = from; i < from + some; ++i) {
        (coarse ? rows[i].coarse_tile : rows[i].tile) = tile;
        (coarse ? rows[i].coarse_gap : rows[i].tile_gap) = tiles.gap;
        rows[i].tile_fields = layout_.fields;
      }
      k.pack_tile(rows + from, some, product_.cols(), coarse, tile);
    }
  };
  if (layout_.outer_tiles.n > 0) pack_outer(t, n);
  std::byte* first = memory_ + layout_.first_tile;
  pack(layout_.fine_tiles, false, first);
  pack(layout_.coarse_tiles, true, first + layout_.fine_tiles.bytes);
}

}  // namespace ingot::cpu
