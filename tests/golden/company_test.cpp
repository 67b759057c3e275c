// One request among 1 to 63 others, 504 times, with weights in panels, chunked prompts and the
// prefix cache on and off. Its tokens and logprobs are bit for bit those that it gets alone.
#include "cli/bench/shapes.h"
#include "golden/support.h"

namespace ingot {
namespace {

constexpr int kVocab = 320, kLargest = 64;

struct Setting {
  const char* format;
  DType kv;
  int chunk_rows;
  bool prefix_cache;
};

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  int below(int n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_;
};

Hparams small_numbers() {
  Hparams hp = shape_by_name("llama-3.2-1b");
  hp.layers = 2;
  hp.hidden = 256;
  hp.heads = 4;
  hp.kv_heads = 2;
  hp.ffn = 512;
  hp.vocab = kVocab;
  hp.sliding.resize(2);
  hp.uses_rope.resize(2);
  return hp;
}

Request request_of(std::vector<int32_t> prompt, uint64_t seed) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = 6;
  request.sampling.temperature = 0.8f;
  request.sampling.seed = seed;
  request.sampling.n_logprobs = 0;
  return request;
}

std::vector<int32_t> random_prompt(Rng& rng, int length) {
  std::vector<int32_t> prompt;
  for (int i = 0; i < length; ++i) prompt.push_back(rng.below(kVocab));
  return prompt;
}

using Answer = std::vector<std::pair<int32_t, float>>;

struct Answers {
  std::map<SeqId, Answer> of;
  size_t most = 0;  // seqs that got a token in one step
};

Answers run_all(LocalEngine& engine) {
  Answers answers;
  while (!engine.idle()) {
    size_t n = 0;
    for (const Event& event : engine.step()) {
      if (event.sample.token < 0) continue;
      answers.of[event.request].emplace_back(event.sample.token, event.sample.logprob);
      ++n;
    }
    answers.most = std::max(answers.most, n);
  }
  return answers;
}

class Company : public testing::TestWithParam<Setting> {};

TEST_P(Company, Of1To63OthersChangesNothing) {
  const Setting& setting = GetParam();
  const Hparams hp = small_numbers();
  Model model = Model::random(hp, formats_by_name(setting.format, hp), {.context = 128, .kv = setting.kv});
  Rng rng(58);
  const std::vector<int32_t> needle = random_prompt(rng, 30);
  Answer alone;
  {
    LocalEngine engine(model, {.threads = 1, .prefix_cache = false, .short_cols = 0});
    const SeqId id = engine.submit(request_of(needle, 7)).id;
    alone = run_all(engine).of.at(id);
    ASSERT_EQ(alone.size(), 6u);
  }
  LocalEngine engine(model, {.threads = 2,
                             .max_seqs = kLargest,
                             .step_rows = 512,
                             .chunk_rows = setting.chunk_rows,
                             .page_rows = 16,
                             .prefix_cache = setting.prefix_cache,
                             .short_cols = 0});
  for (int seqs = 2; seqs <= kLargest; ++seqs) {
    const int place = rng.below(seqs);
    SeqId id = 0;
    for (int s = 0; s < seqs; ++s) {
      std::vector<int32_t> prompt = s == place ? needle : random_prompt(rng, 1 + rng.below(7));
      const Submitted submitted = engine.submit(request_of(std::move(prompt), s == place ? 7u : rng.below(1000)));
      ASSERT_EQ(submitted.refused, "");
      if (s == place) id = submitted.id;
    }
    const Answers answers = run_all(engine);
    EXPECT_EQ(answers.of.at(id), alone) << "among " << seqs;
    EXPECT_EQ(answers.most, static_cast<size_t>(seqs)) << "all were in one step";
  }
  EXPECT_EQ(engine.core().stats().reused_tokens > 0, setting.prefix_cache);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Company,
    testing::Values(Setting{"q4_0", DType::kF32, 0, true}, Setting{"q4_1", DType::kBF16, 7, false},
                    Setting{"q8_0", DType::kBF16, 7, true}, Setting{"q4_k_m", DType::kF16, 0, false},
                    Setting{"bf16", DType::kBF16, 16, true}, Setting{"int4", DType::kQ8_0, 7, false},
                    Setting{"int8", DType::kF32, 0, true}, Setting{"q5_1", DType::kF16, 16, false}),
    [](const testing::TestParamInfo<Setting>& setting) {
      return std::string(setting.param.format) + (setting.param.prefix_cache ? "_cached" : "_alone");
    });

}  // namespace
}  // namespace ingot
