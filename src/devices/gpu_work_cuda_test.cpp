// Work of `ingot devices` on a CUDA device.
#include <cmath>

#include "devices/gpu_work.h"
#include "ops/cuda/cuda_test_support.h"

namespace ingot {
namespace {

TEST(CudaDevices, DataComesBackRight) {
  INGOT_NEEDS_DEVICE();
  const GpuPair pair = test_gpu_pair(0, 0, 3 << 16);
  EXPECT_TRUE(pair.claimed);
  EXPECT_TRUE(pair.wrote);
  EXPECT_TRUE(pair.read);
  EXPECT_FALSE(pair.late);
  EXPECT_GT(pair.through_host_gbs, 0);
}

TEST(CudaDevices, EqualProductsAreEqual) {
  INGOT_NEEDS_DEVICE();
  const auto product = make_gpu_product(0, {.m = 64, .n = 64, .k = 64});
  product->run();
  const std::vector<float> first = product->result();
  product->run();
  EXPECT_EQ(first, product->result());
  double squares = 0;
  for (const float value : first) squares += static_cast<double>(value) * value;
  EXPECT_TRUE(std::isfinite(squares) && squares > 0) << squares;
}

TEST(CudaDevices, OneDeviceHasNoPairs) {
  INGOT_NEEDS_DEVICE();
  const GpuTest test = test_gpus({0}, 1 << 16, [](const GpuPair&) { FAIL() << "a pair of one"; });
  EXPECT_TRUE(test.pairs.empty());
  EXPECT_EQ(test.to_host_gbs.size(), 1u);
}

}  // namespace
}  // namespace ingot
