// GPTQ: rounding a row's columns one after another, each with what the errors of those before it would do to the
// layer's outputs made good as far as it can. Scales are fixed first, as the row is encoded; then any format will do,
// and the order of columns costs nothing when the weights are read.
//
// With H = XᵀX of the inputs and R upper triangular in the order of columns, H = R·Rᵀ, the error of a row e = w − q
// costs Σ over columns k of R[k,k]² · (e_k + Σ over i < k of e_i · R[i,k] / R[k,k])². So column k is rounded from
// w_k + Σ e_i · R[i,k] / R[k,k]: those quotients are the Feedback. (The usual form, by the inverse of H, gives the same
// numbers with two triangular inversions more.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quant/format.h"
#include "quant/gptq_tiles.h"

namespace ingot {

struct GptqOptions {
  // What is added to the diagonal of H, raised until H can be factored: a share of each column's own, or, with
  // `of_mean`, of the mean of all.
  double damping = 0.01;
  bool of_mean = false;
  bool in_order = false;  // columns as they lie; otherwise those of the largest inputs first
};

struct Feedback {
  int64_t cols = 0;
  std::vector<int32_t> order;  // [cols] the column that is rounded i-th
  std::vector<float> factors;  // [cols, cols]: row i, entry k > i: what an error of the i-th adds to the k-th
  double damping = 0;          // that was needed
};

// Takes H, of which entries (i, k) with i <= k are read, and puts the factors in its place; 8 · cols² bytes beside it.
// A column whose input was always zero is rounded alone. The same bits for any number of threads. Throws Error where H
// is not finite.
Feedback make_feedback(std::vector<float> h, int64_t cols, const GptqOptions& options, ThreadPool& pool,
                       const GptqTiles& tiles = gptq_tiles());

// Rounds `rows` rows of values onto the grids of `encoded`, in which each row's scales are found and its codes put.
// `segment`: as RowGrid takes it. Pure: several threads may round different rows. REQUIRES: cols is the feedback's.
void gptq_round(const Feedback& feedback, Format format, std::span<const float> values, int64_t rows, int64_t cols,
                std::span<std::byte> encoded, int64_t segment = 0, const GptqTiles& tiles = gptq_tiles());

}  // namespace ingot
