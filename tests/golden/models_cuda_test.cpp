// Real models on a CUDA device: what they answer on the CPU, to the same tolerances. Where the host plays the device
// little of the small ones runs.
#include "engine/model/cuda_test_support.h"
#include "golden/models_support.h"
#include "tensor/cuda.h"

namespace ingot {
namespace {

#define NEEDS_REAL_DEVICE() \
  NEEDS_DEVICE();           \
  if (cuda::is_emulated()) GTEST_SKIP() << "the host plays the device: this would take minutes"

RunSetup on_device() { return {.threads = 2, .device = {.cuda = 0}}; }

class CudaStories : public testing::TestWithParam<std::string> {
 protected:
  static bool is_small() { return GetParam() == "stories260K"; }
};

TEST_P(CudaStories, LogitsEqualReference) {
  NEEDS_DEVICE();
  expect_story_logits(GetParam(), on_device(), cuda::is_emulated() && !is_small() ? 3 : 1000);
}
TEST_P(CudaStories, GreedyTextEqualsPublished) {
  NEEDS_DEVICE();
  if (!cuda::is_emulated()) return expect_story_texts(GetParam(), on_device());
  expect_story_texts(GetParam(), on_device(), is_small() ? 2 : 1, is_small() ? 40 : 4);
}

INSTANTIATE_TEST_SUITE_P(All, CudaStories, testing::ValuesIn(story_names()),
                         [](const testing::TestParamInfo<std::string>& model) { return model.param; });

// Weights are decoded to f32 and meet rows of f32, as in the CPU's reference.
class CudaReal : public testing::TestWithParam<RealModel> {
 protected:
  static RunSetup setup() {
    RunSetup s = on_device();
    s.context = 512;
    return s;
  }
};

TEST_P(CudaReal, IdsAndArgmaxEqualReference) {
  NEEDS_REAL_DEVICE();
  expect_real_argmax(GetParam(), setup(), 0.05);
}
TEST_P(CudaReal, GreedyTokensEqualReference) {
  NEEDS_REAL_DEVICE();
  expect_real_greedy(GetParam(), setup());
}
TEST_P(CudaReal, PerplexityEqualsReference) {
  NEEDS_REAL_DEVICE();
  expect_real_perplexity(GetParam(), setup(), 8, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(All, CudaReal, testing::ValuesIn(kRealModels),
                         [](const testing::TestParamInfo<RealModel>& model) { return model.param.name; });

}  // namespace
}  // namespace ingot
