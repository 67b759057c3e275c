// Work of `ingot devices` on a CUDA device.
#include <cmath>
#include <set>

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

TEST(CudaDevices, CollectivesAreRightAndTimed) {
  INGOT_NEEDS_DEVICE();
  if (!cuda::is_emulated()) GTEST_SKIP() << "on quarters of an H200 a rank is lost in a row of kernels that meet";
  const auto place = [](int rank) {
    return cuda::is_emulated() ? cuda::DevicePlace{.index = rank} : cuda::DevicePlace{.part = rank, .parts = 2};
  };
  std::vector<std::string> told;
  time_gpu_comm({place(0), place(1)}, 1 << 10, 1 << 14, [&](const GpuCommTime& time) {
    if (time.bytes == 1 << 14) told.push_back(time.op);
    EXPECT_TRUE(time.us > 0 || cuda::is_emulated()) << time.op;  // there events tell no time
  });
  EXPECT_EQ(told, (std::vector<std::string>{"all_gather", "all_reduce", "all_reduce, add, rms_norm",
                                            "all_reduce, add_rms_norm", "all_reduce_add_norm"}));
  // Sizes that are no whole rows are cut to such.
  std::vector<int64_t> bytes;
  for (const int64_t odd : {3000, 20480})
    time_gpu_comm({place(0), place(1)}, odd, odd, [&](const GpuCommTime& time) { bytes.push_back(time.bytes); });
  EXPECT_EQ(std::set<int64_t>(bytes.begin(), bytes.end()), (std::set<int64_t>{2992, 16384}));
}

}  // namespace
}  // namespace ingot
