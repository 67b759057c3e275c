// When a loop over rows is worth the workers: what the CPU versions of row-wise ops share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/lane_sums.h"
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

}  // namespace ingot::cpu
