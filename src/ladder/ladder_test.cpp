// The list of steps, and measuring them where the host plays the device.
#include "ladder/ladder.h"

#include <filesystem>
#include <set>
#include <span>

#include "base/error.h"
#include "base/sha256.h"
#include "cuda/device_test_support.h"
#include "files/json.h"

namespace ingot::ladder {
namespace {

// Of a step's file, and of a CUDA step's also of the headers beside it.
std::string hash_of(const std::filesystem::path& file) {
  std::string all = sha256_file(file.string());
  std::set<std::filesystem::path> headers;
  for (const auto& entry : std::filesystem::directory_iterator(file.parent_path()))
    if (entry.path().extension() == ".cuh") headers.insert(entry.path());
  if (file.extension() != ".cu" || headers.empty()) return all.substr(0, 12);
  for (const auto& header : headers) all += sha256_file(header.string());
  return sha256_hex(std::as_bytes(std::span(all))).substr(0, 12);
}

TEST(Ladder, StepsAreWhatTheirFilesSay) {
  ASSERT_FALSE(steps().empty());
  const StepInfo* before = nullptr;
  for (const StepInfo& step : steps()) {
    SCOPED_TRACE(step.source);
    const std::string path = std::string(INGOT_SOURCE_DIR) + "/" + step.source;
    const std::string text = read_text_file(path);
    EXPECT_EQ(text.substr(0, text.find('\n')), std::string("// ") + step.reason);
    EXPECT_EQ(hash_of(path), step.hash);
    const std::string file = std::string(step.source).substr(std::string(step.source).rfind('/') + 1);
    EXPECT_TRUE(file.starts_with((step.cuda ? "" : "c") + std::to_string(step.order) + "_"));
    if (before != nullptr && std::string(before->op) == step.op && before->cuda == step.cuda) {
      EXPECT_LT(before->order, step.order);
    }
    before = &step;
  }
}

TEST(Ladder, EveryOperatorIsMeasured) {
  INGOT_NEEDS_DEVICE();
  std::set<std::string> known, seen;
  for (const StepInfo& step : steps())
    if (step.cuda) known.insert(step.op);
  std::string device;
  Listener listener;
  listener.begin = [&](const std::string& name, const Limits&) { device = name; };
  listener.each = [&](const LadderTimes& times) {
    seen.insert(times.op);
    EXPECT_GT(times.bytes, 0) << times.op;
    ASSERT_FALSE(times.steps.empty()) << times.op;
    int order = 0;
    for (const StepTime& t : times.steps) {
      EXPECT_EQ(times.op, t.step->op);
      EXPECT_GT(t.step->order, order);
      order = t.step->order;
    }
  };
  bench_cuda_ladders(0, {}, nullptr, listener);
  EXPECT_EQ(seen, known);
  EXPECT_TRUE(device.starts_with("cuda:0 ")) << device;
  EXPECT_THROW(bench_cuda_ladders(0, {"sotfmax"}, nullptr, listener), Error);
}

TEST(Ladder, LimitsAndFigures) {
  LadderTimes times;
  times.size = {2, 3};
  times.dtype = "f32";
  times.variant = "one bin";
  times.bytes = 4e9;
  times.flops = 2e12;
  times.unit = "GB/s";
  const Limits limits{.read_gbs = 8, .copy_gbs = 4, .f32_gflops = 4000};
  EXPECT_EQ(times.shape(), "2 x 3 f32, one bin");
  EXPECT_DOUBLE_EQ(limits.seconds(times), 1);
  EXPECT_STREQ(limits.name(times), "copy");
  times.limit = Limit::kRead;
  times.flops = 4e12;
  EXPECT_DOUBLE_EQ(limits.seconds(times), 1);
  EXPECT_STREQ(limits.name(times), "f32");
  times.multiplies = Multiplier::kFp8;
  EXPECT_STREQ(Limits{.fp8_gflops = 8}.name(times), "fp8");
  EXPECT_DOUBLE_EQ(times.figure(2), 2);
  times.unit = "TFLOP/s";
  EXPECT_DOUBLE_EQ(times.figure(2), 2);
  times.unit = "Gkey/s";
  times.items = 1e9;
  EXPECT_DOUBLE_EQ(times.figure(0.5), 2);
}

}  // namespace
}  // namespace ingot::ladder
