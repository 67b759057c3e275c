#include "bench/multiplier.h"

#include "ops/ops_test_support.h"

namespace ingot {
namespace {

// Every set that runs here has its loops, and they count what they do.
TEST(Multiplier, CountsItsOperations) {
  test::for_each_kernels([] {
    const cpu::Multiplier& m = cpu::multiplier();
    for (double (*products)(int64_t) : {m.int8, m.f32, m.bf16}) {
      EXPECT_GT(products(10), 0);
      EXPECT_EQ(products(20), 2 * products(10));
    }
  });
}

}  // namespace
}  // namespace ingot
