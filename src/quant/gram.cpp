#include "quant/gram.h"

#include <algorithm>

#include "base/check.h"
#include "quant/gptq_tiles.h"
#include "quant/gram_bf16.h"

namespace ingot {
namespace {

constexpr int64_t kDepth = 256;       // rows at a time: a block's two sides take 200 KB of a core's own cache
constexpr int64_t kSide = kGramSide;  // columns of a block, which one thread adds at a time

static_assert(kSide % kBf16Height == 0 && kSide % kBf16Width == 0 && kBf16Height * kBf16Width <= kMostGramTile);

}  // namespace

Gram::Gram(int64_t cols, const GptqTiles& tiles)
    : tiles_(&tiles),
      cols_(cols),
      padded_((cols + kSide - 1) / kSide * kSide),
      sums_(static_cast<size_t>(cols * cols)) {
  CHECK(cols > 0, "{} columns", cols);
}

void Gram::add(const float* x, int64_t rows, int64_t stride, ThreadPool& pool) {
  for (int64_t t = 0; t < rows; t += kDepth) add_part(x + t * stride, std::min(kDepth, rows - t), stride, pool);
  rows_ += rows;
}

void Gram::add_part(const float* x, int64_t rows, int64_t stride, ThreadPool& pool) {
  const GptqTiles& tiles = *tiles_;
  const bool bf16 = multiplies_bf16();
  const int64_t column = bf16 ? bf16_column_floats(rows) : rows, step = rows * tiles.panel;
  packed_.resize(static_cast<size_t>(padded_ * column));
  if (bf16) {
    pool.run(padded_ / 4, [&](int64_t n, int) { pack_bf16(x, rows, stride, 4 * n, cols_, packed_.data()); });
  } else {
    pool.run(padded_ / tiles.panel, [&](int64_t panel, int) { pack(x, rows, stride, panel); });
  }
  const int64_t sides = padded_ / kSide;
  const auto at = [&](int64_t k) { return packed_.data() + k / tiles.panel * step + k % tiles.panel; };
  const auto add_block = [&](int64_t n, int) {
    int64_t i = 0;  // block n of the upper triangle, row by row
    while (n >= sides - i) n -= sides - i++;
    if (bf16) {
      add_tiles(i * kSide, (i + n) * kSide, kBf16Height, kBf16Width, [&](int64_t a, int64_t b, float* sum) {
        tile_bf16(packed_.data() + a * column, packed_.data() + b * column, rows, sum);
      });
    } else {
      add_tiles(i * kSide, (i + n) * kSide, tiles.gram_height, tiles.gram_width,
                [&](int64_t a, int64_t b, float* sum) { tiles.gram(at(a), at(b), rows, step, sum); });
    }
  };
  pool.run(sides * (sides + 1) / 2, add_block);
}

void Gram::pack(const float* x, int64_t rows, int64_t stride, int64_t panel) {
  const int64_t width = tiles_->panel, first = panel * width, count = std::clamp<int64_t>(cols_ - first, 0, width);
  float* out = packed_.data() + first * rows;
  for (int64_t t = 0; t < rows; ++t, out += width) {
    for (int64_t c = 0; c < count; ++c) out[c] = x[t * stride + first + c];
    for (int64_t c = count; c < width; ++c) out[c] = 0;
  }
}

template <class Product>
void Gram::add_tiles(int64_t i_begin, int64_t j_begin, int64_t tall, int64_t wide, const Product& product) {
  alignas(64) float sum[kMostGramTile];
  for (int64_t j = j_begin; j < std::min(cols_, j_begin + kSide); j += wide) {
    const int64_t i_end = std::min({cols_, i_begin + kSide, j + wide});
    for (int64_t i = i_begin; i < i_end; i += tall) {
      product(i, j, sum);
      for (int64_t r = i; r < std::min(i_end, i + tall); ++r) {
        const float* of_r = sum + (r - i) * wide;
        for (int64_t c = std::max(r, j); c < std::min(cols_, j + wide); ++c)
          sums_[static_cast<size_t>(r * cols_ + c)] += of_r[c - j];
      }
    }
  }
}

}  // namespace ingot
