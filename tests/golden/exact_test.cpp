// Bit for bit: how a step is cut, who shares it, how many threads work on it and which ops are fused cannot change a
// seq's logits.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "golden/support.h"
#include "graph/dump.h"
#include "graph/fuse.h"

namespace ingot {
namespace {

using LogitRows = std::vector<std::vector<float>>;

// 150 tokens: three pages, several blocks of attention, windows left behind.
std::vector<int32_t> some_tokens(int n, int vocab, int seed) {
  std::vector<int32_t> tokens;
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761u + 1;
  for (int i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocab)));
  }
  return tokens;
}

void expect_same_bits(const LogitRows& got, const LogitRows& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t r = 0; r < want.size(); ++r) {
    ASSERT_EQ(std::memcmp(got[r].data(), want[r].data(), want[r].size() * sizeof(float)), 0) << what << ", row " << r;
  }
}

bool windowed(const Model& model) {
  return std::ranges::any_of(model.graph.kv_groups, [](const KvGroupSpec& group) { return group.window > 0; });
}

class Exact : public testing::TestWithParam<std::string> {
 protected:
  std::string directory() const { return arch_directory(GetParam()); }
  LogitRows run(const RunSetup& setup, const std::vector<int32_t>& tokens) const {
    TestEngine test(directory(), setup);
    return all_logits(*test.engine, tokens);
  }
};

TEST_P(Exact, ChunksThreadsFusionAndKernelsOfRows) {
  const std::vector<int32_t> tokens = some_tokens(150, 256, 1);
  const LogitRows whole = run({.threads = 1}, tokens);
  for (const int chunk : {1, 7, 64}) {
    expect_same_bits(run({.threads = 1, .chunk_rows = chunk}, tokens), whole, "chunks of " + std::to_string(chunk));
  }
  expect_same_bits(run({.threads = 2}, tokens), whole, "2 threads");
  expect_same_bits(run({.threads = 3, .chunk_rows = 7}, tokens), whole, "3 threads, chunks of 7");
  expect_same_bits(run({.threads = 1, .fuse_off = {"all"}}, tokens), whole, "unfused");
  for (const std::string_view rule : fusion_rules()) {
    expect_same_bits(run({.threads = 1, .fuse_off = {std::string(rule)}}, tokens), whole,
                     "without " + std::string(rule));
  }
}

TEST_P(Exact, TypesOfTheCache) {
  const std::vector<int32_t> tokens = some_tokens(150, 256, 3);
  for (const DType kv : {DType::kF16, DType::kBF16, DType::kFp8, DType::kQ8_0}) {
    const LogitRows whole = run({.threads = 1, .kv = kv}, tokens);
    expect_same_bits(run({.threads = 3, .chunk_rows = 7, .kv = kv}, tokens), whole, std::string(dtype_name(kv)));
  }
}

TEST_P(Exact, RefChunks) {
  const std::vector<int32_t> tokens = some_tokens(100, 256, 2);
  const RunSetup whole{.threads = 1, .kernels = Kernels::kRef, .fuse_off = {"all"}};
  RunSetup cut = whole;
  cut.chunk_rows = 7;
  cut.threads = 2;
  expect_same_bits(run(cut, tokens), run(whole, tokens), "reference, chunks of 7, 2 threads");
}

TEST_P(Exact, AloneEqualsInABatch) {
  constexpr int kSeqs = 5;
  std::vector<LogitRows> alone, together(kSeqs);
  TestEngine test(directory(), {.threads = 2, .step_rows = 64, .chunk_rows = 13, .max_seqs = kSeqs});
  for (int s = 0; s < kSeqs; ++s) {
    const std::vector<int32_t> tokens = some_tokens(20 + 17 * s, 256, 10 + s);
    alone.push_back(run({.threads = 1}, tokens));
    Request request;
    request.prompt = tokens;
    request.max_tokens = 0;
    request.on_logits = [&together, s](int, std::span<const float> logits) {
      together[static_cast<size_t>(s)].emplace_back(logits.begin(), logits.end());
    };
    ASSERT_EQ(test.engine->submit(std::move(request)).refused, "");
  }
  while (!test.engine->idle()) test.engine->step();
  for (size_t s = 0; s < kSeqs; ++s) expect_same_bits(together[s], alone[s], "seq " + std::to_string(s));
}

// Every token that the seq gets, with the sampler's randomness, is the same alone and among others, and when pages are
// so few that seqs are preempted.
TEST_P(Exact, SampledTokensDoNotDependOnTheBatch) {
  constexpr int kSeqs = 4;
  const auto request_of = [](int s) {
    Request request;
    request.prompt = some_tokens(10 + 23 * s, 256, 30 + s);
    request.max_tokens = 40;
    request.sampling.temperature = 1.2f;
    request.sampling.top_p = 0.9f;
    request.sampling.repetition_penalty = 1.1f;
    request.sampling.seed = 7;
    return request;
  };
  const auto collect = [](LocalEngine& engine) {
    std::map<SeqId, std::vector<int32_t>> tokens;
    while (!engine.idle()) {
      for (const Event& event : engine.step()) tokens[event.request].push_back(event.sample.token);
    }
    return tokens;
  };
  std::vector<std::vector<int32_t>> alone;
  for (int s = 0; s < kSeqs; ++s) {
    TestEngine test(directory(), {.threads = 1});
    const SeqId id = test.engine->submit(request_of(s)).id;
    alone.push_back(collect(*test.engine)[id]);
    ASSERT_EQ(alone.back().size(), 40u);
  }
  for (const int pages : {0, 14}) {
    auto model = std::make_unique<Model>(Model::load(directory(), {}));
    LocalEngine engine(
        *model, {.threads = 2, .max_seqs = kSeqs, .step_rows = 48, .chunk_rows = 11, .page_rows = 16, .pages = pages});
    std::vector<SeqId> ids;
    for (int s = 0; s < kSeqs; ++s) ids.push_back(engine.submit(request_of(s)).id);
    const auto together = collect(engine);
    for (size_t s = 0; s < kSeqs; ++s) EXPECT_EQ(together.at(ids[s]), alone[s]) << "seq " << s << ", pages " << pages;
    for (int g = 0; g < engine.core().pages().n_groups(); ++g)
      EXPECT_EQ(engine.core().pages().available(g), engine.core().pages().total_pages(g));
    // A window gives pages back as it moves: then they suffice.
    if (!windowed(*model)) {
      EXPECT_EQ(engine.core().scheduler().n_preempted() > 0, pages > 0);
    }
  }
}

// Guesses what followed the last token the last time.
struct Echo : Drafter {
  void propose(std::span<const int32_t> tokens, int max, std::vector<int32_t>& draft) override {
    for (size_t i = tokens.size() - 1; i-- > 0;) {
      if (tokens[i] != tokens.back()) continue;
      for (size_t j = i + 1; j < tokens.size() && static_cast<int>(draft.size()) < max; ++j) draft.push_back(tokens[j]);
      return;
    }
  }
};

Request company_request(int i) {
  Request request;
  request.prompt = some_tokens(60, 256, 70 + i % 3);  // three beginnings
  for (const int32_t token : some_tokens(3 + 5 * i, 256, 90 + i)) request.prompt.push_back(token);
  request.max_tokens = 30 + 3 * i;
  request.choices = i % 4 == 1 ? 3 : 1;
  request.sampling.temperature = i % 2 ? 0.9f : 0.0f;
  request.sampling.seed = static_cast<uint64_t>(i);
  request.sampling.n_logprobs = 0;
  return request;
}

using Answers = std::map<std::pair<SeqId, int>, std::vector<std::pair<int32_t, float>>>;  // of request and choice

Answers run_all(LocalEngine& engine, const std::function<void(int step)>& between) {
  Answers answers;
  for (int step = 0; !engine.idle(); ++step) {
    for (const Event& event : engine.step()) {
      if (event.sample.token < 0) continue;
      answers[{event.request, event.choice}].emplace_back(event.sample.token, event.sample.logprob);
    }
    if (between) between(step);
  }
  return answers;
}

// Choices, shared prefixes, too few pages, cancelled neighbours and guesses in one engine: each
// request gets bit for bit the tokens and logprobs that it gets alone.
TEST_P(Exact, RandomCompanyChangesNothing) {
  constexpr int kRequests = 14;
  Model model = Model::load(directory(), {.context = 256});
  std::vector<Answers> alone;
  for (int i = 0; i < kRequests; ++i) {
    LocalEngine engine(model, {.threads = 1, .prefix_cache = false});
    ASSERT_EQ(engine.submit(company_request(i)).id, 1);
    alone.push_back(run_all(engine, {}));
  }
  LocalEngine engine(
      model,
      {.threads = 2, .max_seqs = 5, .step_rows = 50, .chunk_rows = 23, .page_rows = 16, .pages = 22, .max_draft = 3});
  std::map<SeqId, int> index;
  std::vector<SeqId> doomed;
  for (int i = 0; i < kRequests; ++i) {
    Request request = company_request(i);
    if (i % 3 == 0) request.drafter = std::make_shared<Echo>();
    index[engine.submit(std::move(request)).id] = i;
    doomed.push_back(engine.submit(company_request(i + 1)).id);
  }
  const Answers answers = run_all(engine, [&](int step) {
    if (step % 3 != 0 || doomed.empty()) return;
    engine.cancel(doomed.back());
    doomed.pop_back();
  });
  for (const auto& [id, i] : index) {
    for (int c = 0; c < company_request(i).choices; ++c) {
      EXPECT_EQ(answers.at({id, c}), alone[static_cast<size_t>(i)].at({1, c})) << "request " << i;
    }
  }
  const EngineStats stats = engine.core().stats();
  EXPECT_GT(stats.reused_tokens, 0);
  if (!windowed(model)) {
    EXPECT_GT(stats.preempted, 0);
  }
  for (int g = 0; g < engine.core().pages().n_groups(); ++g) {
    EXPECT_EQ(engine.core().pages().available(g), engine.core().pages().total_pages(g));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Exact, testing::ValuesIn(arch_names()),
                         [](const testing::TestParamInfo<std::string>& arch) { return test_name(arch.param); });

// Each rule fires where it is meant to.
TEST(Fusion, EachRuleFiresOnItsModel) {
  const auto fired = [](const char* arch, std::string_view rule) {
    return Model::load(fixture(std::string("arch/") + arch), {}).fused.at(rule);
  };
  EXPECT_EQ(fired("llama", "tail_rows"), 8);  // o, sum, norm, gate, up, unit, down, sum
  EXPECT_EQ(Model::load(fixture("arch/llama"), {.keep_hidden = true}).fused.at("tail_rows"), 0);
  EXPECT_EQ(fired("llama", "share_input"), 2 * 3);  // k and v join q, up joins gate, in two layers
  EXPECT_EQ(fired("llama", "glu_epilogue"), 2);
  EXPECT_EQ(fired("llama", "residual_epilogue"), 2 * 2);
  EXPECT_EQ(fired("gemma2", "add_norm"), 2 * 2);
  EXPECT_EQ(fired("llama", "rope_kv_write"), 2);
  EXPECT_EQ(fired("smollm3", "rope_kv_write"), 1);  // the other layer has no rope
  EXPECT_EQ(fired("gpt2", "residual_epilogue"), 2 * 2);
  for (const char* arch : {"llama", "qwen3", "olmo2", "glm4"}) EXPECT_EQ(fired(arch, "heads_epilogue"), 2) << arch;
  EXPECT_EQ(fired("llama", "norm_prologue"), 2 * 2 + 1);  // two in each layer, and the head's
  EXPECT_EQ(fired("gemma3", "norm_prologue"), 2 * 2 + 1);
}

// A layer is norm + q, k, v + rope + KV write | attention | o | norm + gate, up | down.
TEST(Fusion, ALayerHasAtMostFiveParallelRegions) {
  for (const std::string& arch : arch_names()) {
    TestEngine test(arch_directory(arch), {.threads = 3});
    const std::vector<int> regions = layer_regions(test.model->graph);
    ASSERT_FALSE(regions.empty()) << arch;
    for (size_t i = 0; i < regions.size(); ++i) {
      int most = 5;
      if (arch == "smollm3") most = 6;                  // one layer has no rope: its KV write is a node
      if (arch == "granite") most = 8;                  // scales what it adds
      if (arch == "olmo2" || arch == "gpt2") most = 9;  // norms only what it adds; layer norms and a plain MLP
      // Its norm has several readers; router, choice, the experts' two products, and what all rows meet.
      if (test.model->hp.experts.count > 0) most = 17;
      // Down to the latent and up again, its norm, its rope and its write.
      if (test.model->hp.latent) most = test.model->hp.experts.count > 0 ? 22 : 14;
      EXPECT_LE(regions[i], most) << arch << ", layer " << i;
    }
    // What the pool counts: nodes of few rows may do with fewer.
    const int64_t before = test.engine->runner().pool().regions();
    all_logits(*test.engine, some_tokens(100, 256, 3));
    const int64_t ran = test.engine->runner().pool().regions() - before;
    const int64_t nodes = static_cast<int64_t>(test.model->graph.nodes.size());
    const int64_t head = nodes - static_cast<int64_t>(test.model->graph.head_begin);
    EXPECT_LE(ran, nodes - head + 7 * head) << arch;  // the head runs in pieces of 16 rows
  }
}

}  // namespace
}  // namespace ingot
