// Operators timed alone on a CUDA device: what ingot bench ops prints.
#include <map>

#include "base/error.h"
#include "bench/device.h"
#include "ops/cuda/cuda_test_support.h"

namespace ingot {
namespace {

TEST(CudaOps, EachIsTimedAlone) {
  INGOT_NEEDS_DEVICE();
  std::map<std::string, int> seen;
  std::string device;
  DeviceOpsListener listener;
  listener.begin = [&](const std::string& name, const DeviceCeilings&) { device = name; };
  listener.each = [&](const DeviceOpTime& t) {
    ++seen[t.op];
    EXPECT_FALSE(device.empty());
    EXPECT_FALSE(t.shape.empty());
    EXPECT_GT(t.bytes, 0) << t.op << " " << t.shape;
    EXPECT_GT(t.flops, 0) << t.op << " " << t.shape;
  };
  bench_device_ops(0, {"attention", "linear"}, listener);
  EXPECT_TRUE(device.starts_with("cuda:0 ")) << device;
  EXPECT_GT(seen["linear"], 0);
  EXPECT_GT(seen["attention"], 0);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_THROW(bench_device_ops(0, {"linera"}, listener), Error);
}

}  // namespace
}  // namespace ingot
