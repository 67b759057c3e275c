// The products of XᵀX with inputs rounded to bf16, on ARM machines that multiply these: about twice as fast as
// float32. Sums are float32. What is rounded is a text's inputs, so XᵀX stays that of some inputs, and can be factored.
#pragma once

#include <cstdint>

namespace ingot {

constexpr int64_t kBf16Height = 8, kBf16Width = 12;  // of a tile: 24 registers of 2 x 2 sums

// Whether this machine has the instruction. Without it nothing below may be called.
bool multiplies_bf16();

// Floats' room that a column takes when packed: two columns lie side by side, four rows of the one, then of the other.
inline int64_t bf16_column_floats(int64_t rows) { return (rows + 3) / 4 * 2; }

// Four columns from `first` on, of which those from `cols` on are zeros, into `out`, where those of column 0 begin.
void pack_bf16(const float* x, int64_t rows, int64_t stride, int64_t first, int64_t cols, float* out);

// sum[i · kBf16Width + j] = Σ over rows of column i · column j; `a` and `b` begin at an even column.
void tile_bf16(const float* a, const float* b, int64_t rows, float* sum);

}  // namespace ingot
