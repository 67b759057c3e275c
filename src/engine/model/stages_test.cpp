// A model in stages gives the bits of one, with as many steps in flight as there are stages.
#include "engine/model/stages.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/model/cpu_model.h"
#include "engine/model/ranks_test_support.h"
#include "graph/stages.h"
#include "quant/format_test_support.h"

namespace ingot {
namespace {

class StagesOfArchitecture : public testing::TestWithParam<std::string> {};

TEST_P(StagesOfArchitecture, BitsOfOne) {
  const std::string path = committed_data("arch/" + GetParam());
  const ModelOptions options{.context = 64};
  const Logits one = run_both(Model::load(path, options), 1);
  ASSERT_EQ(one.size(), 65u);
  for (const int stages : {2, 3}) {
    ModelOptions several = options;
    several.pp = stages;
    expect_same_bits(run_both(Model::load(path, several), stages), one, std::to_string(stages) + " stages");
  }
}

INSTANTIATE_TEST_SUITE_P(All, StagesOfArchitecture, testing::ValuesIn(architectures_here()),
                         [](const auto& given) { return test_name(given.param); });

TEST(Stages, EveryFormat) {
  for (const Format format : test::all_formats()) {
    const auto load = [&](int stages) {
      return Model::random(small_llama({.hidden = 256, .head_dim = 64, .context = 64}),
                           [format](const std::string&) { return format; }, {.context = 64, .pp = stages});
    };
    expect_same_bits(run_both(load(2), 2), run_both(load(1), 1), std::string(format_name(format)));
  }
}

// The answers of `n` seqs, some sampled, by their ids.
std::map<SeqId, std::vector<int32_t>> answers(LocalEngine& engine, int n) {
  for (int i = 0; i < n; ++i) {
    Request request;
    request.prompt = some_tokens(5 + 3 * i, i + 1);
    request.max_tokens = 12 + i;
    request.sampling.temperature = i % 2 == 0 ? 0 : 0.8f;
    request.sampling.seed = static_cast<uint64_t>(i);
    EXPECT_GE(engine.submit(std::move(request)).id, 0);
  }
  std::map<SeqId, std::vector<int32_t>> tokens;
  while (!engine.idle()) {
    for (const Event& event : engine.step()) {
      if (event.sample.token >= 0) tokens[event.request].push_back(event.sample.token);
    }
  }
  return tokens;
}

TEST(Stages, StepsOfDisjointSeqsAreInFlight) {
  const std::string path = committed_data("arch/llama");
  const Model one = Model::load(path, {.context = 64});
  EngineConfig config = small_config(1);
  config.max_seqs = 6;
  LocalEngine alone(one, config);
  const auto want = answers(alone, 7);
  ASSERT_EQ(want.size(), 7u);
  for (const int stages : {2, 3}) {
    const Model model = Model::load(path, {.context = 64, .pp = stages});
    LocalEngine engine(model, config);
    EXPECT_EQ(answers(engine, 7), want) << stages << " stages";
    const EngineStats stats = engine.core().stats();
    EXPECT_GT(stats.ahead, stats.steps / 2) << stages << " stages";
    const auto all_ended = [&](const std::vector<RankUse>& all) {
      return std::ranges::all_of(all, [&](const RankUse& use) { return use.counts.steps == stats.steps; });
    };
    const std::vector<RankUse> known = known_once(all_ended);
    ASSERT_EQ(known.size(), static_cast<size_t>(stages));
    EXPECT_TRUE(all_ended(known));
    for (const RankUse& use : known) EXPECT_GT(use.counts.bytes[static_cast<size_t>(CommKind::kMessage)], 0);
  }
}

// Each stage has the cache of its own layers.
TEST(Stages, TheCacheIsShared) {
  const Model one = Model::load(committed_data("arch/llama"), {.context = 64});
  const Model two = Model::load(committed_data("arch/llama"), {.context = 64, .pp = 2});
  LocalEngine whole(one, small_config(1)), staged(two, small_config(2));
  EXPECT_EQ(whole.device().kv_bytes(), staged.device().kv_bytes());
  EXPECT_LT(staged.device().program().kv_groups[0].n_layers, one.graph.kv_groups[0].n_layers);
}

TEST(Stages, MoreThanThereArePlacesAreRefused) {
  EXPECT_THROW(Model::load(committed_data("arch/llama"), {.context = 64, .pp = 64}), Error);
  EXPECT_THROW(Model::load(committed_data("arch/llama"), {.context = 64, .tp = 2, .pp = 2}), Error);
}

// A stage that fails in a step: each request ends with an error at once.
TEST(Stages, ALostStageEndsEveryRequest) {
  const Model model = Model::load(committed_data("arch/llama"), {.context = 64, .pp = 3});
  Engine engine(model, small_config(3));
  std::atomic<int> steps{0};
  engine.call([&](LocalEngine& local) {
    dynamic_cast<CpuModel&>(local.device()).stages()->on_step = [&](int rank) {
      if (rank == 2 && ++steps == 3) throw std::runtime_error("no memory");
    };
  });
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) {
    Request request;
    request.prompt = some_tokens(5, 1);
    request.max_tokens = 40;
    const Submission submitted = engine.submit(std::move(request));
    FinishReason finish = FinishReason::kNone;
    while (const auto event = submitted.stream->next()) finish = event->finish;
    EXPECT_EQ(finish, FinishReason::kError);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_NE(engine.lost().find("no memory"), std::string::npos) << engine.lost();
  EXPECT_FALSE(known_once([](const auto& all) { return !all.at(2).alive; }).at(2).alive);
}

}  // namespace
}  // namespace ingot
