// What the CPU versions of row-wise ops share: when a loop over rows is worth the workers, and sums whose
// order does not depend on anything but the length.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/ctx.h"

namespace ingot::cpu {

// Calls body(first, last) for pieces of [0, rows), in parallel when that pays. `row_cost` is about a row's
// work in additions: waking the workers costs some 5 us, as much as 32 Ki of them.
template <class F>
void split_rows(Ctx& ctx, int64_t rows, int64_t row_cost, const F& body) {
  constexpr int64_t kWorthwhile = 64 * 1024;
  constexpr int64_t kPiece = 16 * 1024;
  if (ctx.pool.threads() == 1 || rows <= 1 || rows * row_cost < kWorthwhile) {
    if (rows > 0) body(int64_t{0}, rows);
    return;
  }
  // At most four pieces for each thread, so that a late one does not keep the others waiting.
  const int64_t fewest = (rows + 4 * ctx.pool.threads() - 1) / (4 * ctx.pool.threads());
  const int64_t piece = std::max(fewest, kPiece / std::max<int64_t>(row_cost, 1));
  ctx.pool.run((rows + piece - 1) / piece, [&](int64_t i, int) { body(i * piece, std::min(rows, (i + 1) * piece)); });
}

inline constexpr int kLanes = 16;

// The sum of term(i) for i in [0, n): lane j adds the terms j, j + 16, …, then the lanes are added in a
// tree. The order is the same for every caller, and the lanes are independent, so that they vectorize.
template <class F>
float lane_sum(int64_t n, const F& term) {
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lane[j] += term(i + j);
  for (int j = 0; i < n; ++i, ++j) lane[j] += term(i);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) lane[j] += lane[j + width];
  return lane[0];
}

// The largest of x[0, n), NaN left out; -inf where there is none.
inline float lane_max(const float* x, int64_t n) {
  float lane[kLanes];
  std::fill(lane, lane + kLanes, -__builtin_inff());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  for (int j = 0; i < n; ++i, ++j) lane[j] = x[i] > lane[j] ? x[i] : lane[j];
  return *std::max_element(lane, lane + kLanes);
}

}  // namespace ingot::cpu
