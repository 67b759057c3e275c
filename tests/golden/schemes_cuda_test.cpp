// Compressed checkpoints of other tools on a CUDA device: the reference's logits. Where the host plays the device two
// run.
#include "engine/model/cuda_test_support.h"
#include "golden/schemes_support.h"
#include "tensor/cuda.h"

namespace ingot {
namespace {

class CudaSchemes : public testing::TestWithParam<std::string> {};

// Rows of x are bf16 where weights are packed.
TEST_P(CudaSchemes, LogitsEqualReference) {
  NEEDS_DEVICE();
  if (cuda::is_emulated() && GetParam() != "gptq-4bit-g128" && GetParam() != "ct-nvfp4")
    GTEST_SKIP() << "the host plays the device: this would take minutes";
  expect_scheme_logits(GetParam(), {.threads = 2, .device = {.cuda = 0}}, 1e-3, false);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaSchemes);
INSTANTIATE_TEST_SUITE_P(All, CudaSchemes, testing::ValuesIn(scheme_names()), scheme_test_name);

}  // namespace
}  // namespace ingot
