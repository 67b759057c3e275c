#include "ops/top_k/top_k_cpu.h"

#include <algorithm>
#include <limits>

#include "ops/row_loop.h"
#include "ops/top_k/top_k.h"

namespace ingot::cpu {
namespace {

bool before(const TopEntry& a, const TopEntry& b) {
  if (a.value > b.value) return true;
  if (a.value < b.value) return false;
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  return a_is_nan != b_is_nan ? b_is_nan : a.id < b.id;
}

// Leaves the `keep` best, the worst of them last. REQUIRES: 0 < keep < entries.size().
void keep_best(std::vector<TopEntry>& entries, size_t keep) {
  const auto last = entries.begin() + static_cast<std::ptrdiff_t>(keep - 1);
  std::nth_element(entries.begin(), last, entries.end(), before);
  entries.resize(keep);
}

}  // namespace

// Keeps the candidates that beat the k-th best seen so far; when twice as many as needed have gathered,
// the better half stays. Ids ascend, so a later equal value never beats an earlier one.
void top_k_row(const float* x, int64_t n, int64_t k, std::vector<TopEntry>& out) {
  out.clear();
  if (k == 0) return;
  const size_t keep = static_cast<size_t>(k);
  const size_t capacity = std::min(static_cast<size_t>(n), 2 * keep + 256);
  out.reserve(capacity + kLanes);
  float bar = std::numeric_limits<float>::quiet_NaN();  // while it is NaN, everything passes
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t end = std::min(n, i + kLanes);
    if (bar == bar && end - i == kLanes) {
      int any = 0;
      for (int j = 0; j < kLanes; ++j) any |= x[i + j] > bar;
      if (any == 0) continue;
    }
    for (int64_t c = i; c < end; ++c)
      if (x[c] > bar || bar != bar) out.push_back({x[c], static_cast<int32_t>(c)});
    if (out.size() >= capacity && out.size() > keep) {
      keep_best(out, keep);
      bar = out.back().value;
    }
  }
  if (out.size() > keep) keep_best(out, keep);
  std::sort(out.begin(), out.end(), before);
}

void run(const TopK& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.x), op.x.cols, [&](int64_t first, int64_t last) {
    std::vector<TopEntry> best;
    for (int64_t r = first; r < last; ++r) {
      top_k_row(op.x.f32(r), op.x.cols, op.ids.cols, best);
      for (int64_t k = 0; k < op.ids.cols; ++k) {
        op.values.f32(r)[k] = best[static_cast<size_t>(k)].value;
        op.ids.row<int32_t>(r)[k] = best[static_cast<size_t>(k)].id;
      }
    }
  });
}

}  // namespace ingot::cpu
