// Real models on the CPU, by both kinds of kernels. What the reference kernels give depends on no instruction set:
// tests of them alone have ReferenceKernels in their names, and tools/run_tests.py runs them on one set.
#include "app/open_engine.h"
#include "golden/models_support.h"

namespace ingot {
namespace {

class Stories : public testing::TestWithParam<std::string> {};

TEST_P(Stories, LogitsEqualReference) { expect_story_logits(GetParam(), {.threads = 2}); }
TEST_P(Stories, LogitsOfReferenceKernels) { expect_story_logits(GetParam(), {.threads = 2, .kernels = Kernels::kRef}); }

TEST_P(Stories, GreedyTextEqualsPublished) { expect_story_texts(GetParam(), {.threads = 2}); }

INSTANTIATE_TEST_SUITE_P(All, Stories, testing::ValuesIn(story_names()),
                         [](const testing::TestParamInfo<std::string>& model) { return model.param; });

class Real : public testing::TestWithParam<RealModel> {};

TEST_P(Real, IdsAndArgmaxEqualReference) { expect_real_argmax(GetParam(), {.threads = 2, .context = 512}, 0.5); }
TEST_P(Real, IdsAndArgmaxOfReferenceKernels) {
  expect_real_argmax(GetParam(), {.threads = 2, .kernels = Kernels::kRef, .context = 512}, 0.05);
}

TEST_P(Real, GreedyTokensEqualReference) { expect_real_greedy(GetParam(), {.threads = 2, .context = 512}); }

TEST_P(Real, PerplexityOfReferenceKernels) {
  expect_real_perplexity(GetParam(), {.threads = 2, .kernels = Kernels::kRef, .context = 512}, 1, 1e-3);
}

// As the commands run it, with the KV cache that this CPU prefers and with one of f32. The rounding of x to 8 bits is
// noise of about 0.5 % on eight chunks. Over the 40 that the reference has, the default model is 0.28 % off with bf16
// and 0.26 % with f32 on i8mm, where 0.4 % is asked for: with f32 eight of them are read here. A set that INGOT_ISA
// names, perhaps a tenth as fast as the best one, reads eight with the preferred cache alone.
TEST_P(Real, PerplexityOfFastKernels) {
  SKIP_WITHOUT_MODEL(GetParam());
  SKIP_WITHOUT(ScoredText::path());
  const ScoredText text = ScoredText::read(*path, GetParam().golden_path());
  const char* named = std::getenv("INGOT_ISA");
  const bool best = named == nullptr || *named == '\0';
  for (const char* kv : best ? std::vector{"", "f32"} : std::vector{""}) {
    const bool all = best && *kv == '\0' && std::string(GetParam().name) == kRealModels[0].name;
    SCOPED_TRACE(std::string("KV ") + kv);
    OpenEngine open =
        open_engine(*path, {.device = "cpu", .kv = kv, .model = {.context = 512}, .engine = {.threads = 2}});
    text.expect_near(*open.engine, all ? text.nll.size() : 8, 7e-3, all ? 4e-3 : 7e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Real, testing::ValuesIn(kRealModels),
                         [](const testing::TestParamInfo<RealModel>& model) { return model.param.name; });

}  // namespace
}  // namespace ingot
