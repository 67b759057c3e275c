// Which devices the ranks of a model get.
#include <gtest/gtest.h>

#include "app/device.h"
#include "base/error.h"
#include "engine/model/cuda.h"
#include "tensor/cuda.h"

namespace ingot {
namespace {

std::string refused(const std::string& device, int ranks) {
  try {
    choose_devices(device, false, ranks);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CudaDeviceChoice, OneForEachRank) {
  if (!cuda::is_emulated()) GTEST_SKIP() << "how many devices there are is not set by a test";
  EXPECT_EQ(choose_devices("cuda:1", false, 1).cuda, 1);
  EXPECT_EQ(choose_devices("cuda", false, 3).cudas, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(choose_devices("", false, 2).cudas, (std::vector<int>{0, 1}));
  EXPECT_EQ(choose_devices("cuda:3,1", false, 2).place(1).index, 1);
  const EngineDevice parts = choose_devices("cuda:2/4", false, 4);
  EXPECT_EQ(parts.place(3).index, 2);
  EXPECT_EQ(parts.place(3).part, 3);
  EXPECT_EQ(parts.place(3).parts, 4);
  EXPECT_EQ(device_name(parts), "cuda:2/4");
  EXPECT_EQ(choose_devices("cpu", false, 2).cuda, -1);
}

TEST(CudaDeviceChoice, SaysWhatIsWrong) {
  if (!cuda::is_emulated()) GTEST_SKIP() << "how many devices there are is not set by a test";
  EXPECT_EQ(refused("cuda:0/4", 2), "[tp] --device cuda:0/4 names 4 devices for 2 ranks: --tp 4, or as many devices");
  EXPECT_EQ(refused("cuda:1", 2), "[tp] --device cuda:1 names 1 device for 2 ranks: --tp 1, or as many devices");
  EXPECT_EQ(refused("cuda:0,0", 2), "[device] cuda:0,0 names device 0 twice: cuda:0/2 makes 2 of one");
  EXPECT_TRUE(refused("cuda", 5).starts_with("[tp] 5 ranks need as many GPUs: there is no device 4"))
      << refused("cuda", 5);
  EXPECT_TRUE(refused("cuda:0,9", 2).starts_with("[device] cuda:0,9: there is no device 9")) << refused("cuda:0,9", 2);
  EXPECT_THROW(choose_one_device("cuda:0/2"), Error);
  EXPECT_EQ(choose_one_device("cuda:2"), 2);
}

}  // namespace
}  // namespace ingot
