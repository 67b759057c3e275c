#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "matmul/cpu/panel_kernels.h"
#include "matmul/matmul_test_support.h"

namespace ingot {
namespace {

// Blocks of every kind, zeros, tiny values, an infinity and what is no number among them: each alone as among others.
TEST(PanelQuantize, ABlockDoesNotDependOnItsNeighbours) {
  constexpr int64_t kBlocks = 11, kValues = kBlocks * kPanelBlock;
  std::vector<float> x(kValues);
  test::Random random(3);
  for (float& v : x) v = random.normal();
  for (int64_t i = 0; i < kPanelBlock; ++i) {
    x[static_cast<size_t>(kPanelBlock + i)] = 0;
    x[static_cast<size_t>(2 * kPanelBlock + i)] *= 1e-38f;
    x[static_cast<size_t>(5 * kPanelBlock + i)] *= 1e30f;
  }
  x[3 * kPanelBlock + 7] = std::numeric_limits<float>::infinity();
  x[6 * kPanelBlock + 31] = std::numeric_limits<float>::quiet_NaN();
  test::for_each_kernels([&] {
    const cpu::PanelKernels& k = *cpu::kernels().panels;
    std::vector<int8_t> q(kValues), alone_q(kValues);
    std::vector<int16_t> wide(kValues), alone_wide(kValues);
    std::vector<cpu::XBlock> blocks(kBlocks), alone(kBlocks);
    k.quantize(x.data(), kValues, q.data(), wide.data(), blocks.data());
    for (int64_t b = 0; b < kBlocks; ++b) {
      const int64_t at = b * kPanelBlock;
      k.quantize(x.data() + at, kPanelBlock, alone_q.data() + at, alone_wide.data() + at,
                 &alone[static_cast<size_t>(b)]);
    }
    for (size_t b = 0; b < kBlocks; ++b) {
      SCOPED_TRACE(b);
      const cpu::XBlock &got = blocks[b], &want = alone[b];
      if (b == 3 || b == 6) {
        EXPECT_FALSE(std::isfinite(got.scale));
        continue;  // the integers of such a block are nobody's business
      }
      EXPECT_EQ(std::memcmp(&got, &want, sizeof(got)), 0);
      const size_t at = b * kPanelBlock;
      EXPECT_EQ(std::memcmp(&q[at], &alone_q[at], kPanelBlock), 0);
      EXPECT_EQ(std::memcmp(&wide[at], &alone_wide[at], 2 * kPanelBlock), 0);
      EXPECT_EQ(got.total, std::accumulate(&q[at], &q[at] + kPanelBlock, 0));
    }
  });
}

}  // namespace
}  // namespace ingot
