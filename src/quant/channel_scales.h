// Factors of a matrix's columns that make its rounding hurt less: columns are multiplied and what they read is divided
// by them, which changes nothing but what rounding does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

// AWQ's: mean |x| of each column to the power of `alpha` (0: all 1, up to 1), their geometric mean being 1. A column
// that reads next to nothing counts as one that reads 1/4096 of the largest.
std::vector<float> awq_scales(std::span<const float> mean_abs, float alpha);

// SmoothQuant's: max |x| to the power of `share` over max |w| to the power of 1 - `share`: both x and w then have
// maxima of like size in each column. Their geometric mean is 1.
std::vector<float> smooth_scales(std::span<const float> largest_x, std::span<const float> largest_w, float share);

// Each row of [rows, cols] as 8-bit integers times one number hold it, decoded again: what W8A8 does to x.
void round_rows_int8(std::span<float> x, int64_t rows, int64_t cols);

// out[t] += Σ_k w[k] · x[k, t], in the order of k: x is [w.size(), out.size()].
void add_products(std::span<const float> w, std::span<const float> x, std::span<float> out);

}  // namespace ingot
