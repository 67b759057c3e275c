// The inner loops of gram.h and gptq.h, compiled for each instruction set. Every sum has one order in all of them, so
// the sets that multiply and add in one step (all but kBaseline's) give the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace ingot {

struct GptqTiles {
  const char* name;  // of the set

  // Columns that lie side by side when rows are packed, and a tile of sums: `gram_height` columns, a part of such a
  // panel, by `gram_width`, a whole number of them.
  int64_t panel, gram_height, gram_width;
  // out[i][j] = Σ over rows of a[row][i] · b[row][j]; panels are `step` values apart.
  void (*gram)(const float* a, const float* b, int64_t rows, int64_t step, float* out);

  int64_t factor_height, factor_width;
  // A tile of `to`, rows `stride` apart, less left · right: `depth` columns of the rows of `left` and as many rows of
  // `right`, of the same stride.
  void (*subtract)(double* to, const double* left, const double* right, int64_t stride, int64_t depth);

  // Adds errors of `count` columns to `columns` columns of `wanted`, times the factor that each of the former has for
  // each of the latter: rows of factors `stride` apart. A column is 16 (or 8) values side by side.
  using Spread = void(const float* factors, int64_t stride, const float* error, int64_t count, float* wanted,
                      int64_t columns);
  Spread* spread_16;
  Spread* spread_8;
};

// Multiples of all heights, widths and panels.
inline constexpr int64_t kGramSide = 96;
inline constexpr int64_t kMostGramTile = 8 * 48;
inline constexpr int64_t kFactorSide = 32;

// Those that this CPU runs, best first.
std::span<const GptqTiles* const> all_gptq_tiles();
inline const GptqTiles& gptq_tiles() { return *all_gptq_tiles().front(); }

}  // namespace ingot
