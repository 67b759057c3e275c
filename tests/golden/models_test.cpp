// Real models on the CPU, by both sets of kernels.
#include "golden/models_support.h"

namespace ingot {
namespace {

class Stories : public testing::TestWithParam<std::string> {};

TEST_P(Stories, LogitsEqualReference) {
  for (const Kernels kernels : {Kernels::kRef, Kernels::kFast})
    expect_story_logits(GetParam(), {.threads = 2, .kernels = kernels});
}

TEST_P(Stories, GreedyTextEqualsPublished) { expect_story_texts(GetParam(), {.threads = 2}); }

INSTANTIATE_TEST_SUITE_P(All, Stories, testing::Values("stories260K", "stories15M"),
                         [](const testing::TestParamInfo<std::string>& model) { return model.param; });

class Real : public testing::TestWithParam<RealModel> {};

TEST_P(Real, IdsAndArgmaxEqualReference) {
  expect_real_argmax(GetParam(), {.threads = 2, .kernels = Kernels::kRef, .context = 512}, 0.05);
  expect_real_argmax(GetParam(), {.threads = 2, .kernels = Kernels::kFast, .context = 512}, 0.5);
}

TEST_P(Real, GreedyTokensEqualReference) { expect_real_greedy(GetParam(), {.threads = 2, .context = 512}); }

TEST_P(Real, PerplexityEqualsReference) {
  expect_real_perplexity(GetParam(), {.threads = 2, .kernels = Kernels::kRef, .context = 512}, 2, 1e-3);
  // The rounding of x to 8 bits is noise of about 0.5 % on two chunks: more of them make the mark of 0.7 % bite.
  expect_real_perplexity(GetParam(), {.threads = 2, .kernels = Kernels::kFast, .context = 512}, 8, 7e-3);
}

INSTANTIATE_TEST_SUITE_P(All, Real, testing::ValuesIn(kRealModels),
                         [](const testing::TestParamInfo<RealModel>& model) { return model.param.name; });

}  // namespace
}  // namespace ingot
