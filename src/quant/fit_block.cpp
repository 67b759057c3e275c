#include "quant/fit_block.h"

#include <vector>

#include "base/check.h"

namespace ingot {

#if defined(__aarch64__)
extern const BlockFits kNeonBlockFits;
#else
extern const BlockFits kBaselineBlockFits;
#endif
#if defined(__x86_64__)
extern const BlockFits kAvx2BlockFits;
#endif

std::span<const BlockFits* const> all_block_fits() {
  static const std::vector<const BlockFits*> all = [] {
    std::vector<const BlockFits*> found;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
      found.push_back(&kAvx2BlockFits);
#endif
#if defined(__aarch64__)
    found.push_back(&kNeonBlockFits);
#else
    found.push_back(&kBaselineBlockFits);
#endif
    return found;
  }();
  return all;
}

namespace {
const BlockFits& best() { return *all_block_fits().front(); }

void check_block(size_t values, size_t sub_size) {
  CHECK(values == kFitBlock && (sub_size == 16 || sub_size == 32), "block of {} in {}", values, sub_size);
}
}  // namespace

ScaledBlock fit_scaled_block(std::span<const float> x, const float* importance, size_t sub_size, const IntGrid& grid,
                             const IntGrid& scales) {
  check_block(x.size(), sub_size);
  return best().scaled(x, importance, sub_size, grid, scales);
}
ScaledBlock fit_scaled_block(std::span<const float> x, const float* importance, size_t sub_size, const Codebook& grid,
                             const IntGrid& scales) {
  check_block(x.size(), sub_size);
  return best().scaled_book(x, importance, sub_size, grid, scales);
}
AffineBlock fit_affine_block(std::span<const float> x, const float* importance, size_t sub_size, int q_max,
                             int scale_max) {
  check_block(x.size(), sub_size);
  return best().affine(x, importance, sub_size, q_max, scale_max);
}

}  // namespace ingot
