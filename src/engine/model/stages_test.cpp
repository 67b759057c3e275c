// A model in stages, of one rank or of several, gives the bits of one, with as many steps in flight as there are
// stages.
#include "graph/stages.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <tuple>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/model/cpu_model.h"
#include "engine/model/ranks_test_support.h"
#include "quant/format_test_support.h"

namespace ingot {
namespace {

class StagesOfArchitecture : public testing::TestWithParam<std::string> {};

TEST_P(StagesOfArchitecture, BitsOfOne) {
  const std::string path = committed_data("arch/" + GetParam());
  const ModelOptions options{.context = 64};
  const Logits one = run_both(Model::load(path, options), 1);
  ASSERT_EQ(one.size(), 65u);
  for (const auto& [tp, pp] : {std::pair(1, 2), std::pair(1, 3), std::pair(2, 2), std::pair(3, 2), std::pair(4, 2)}) {
    ModelOptions several = options;
    several.tp = tp;
    several.pp = pp;
    expect_same_bits(run_both(Model::load(path, several), tp * pp), one, fmt::format("{} stages of {}", pp, tp));
  }
}

INSTANTIATE_TEST_SUITE_P(All, StagesOfArchitecture, testing::ValuesIn(architectures_here()),
                         [](const auto& given) { return test_name(given.param); });

TEST(Stages, EveryFormat) {
  for (const Format format : test::all_formats()) {
    const auto load = [&](int tp, int pp) {
      return Model::random(small_llama({.hidden = 256, .head_dim = 64, .context = 64}),
                           [format](const std::string&) { return format; }, {.context = 64, .tp = tp, .pp = pp});
    };
    const Logits one = run_both(load(1, 1), 1);
    for (const int tp : {1, 2, 3, 4})
      expect_same_bits(run_both(load(tp, 2), tp * 2), one, fmt::format("{}, stages of {}", format_name(format), tp));
  }
}

// More threads than ranks and fewer, three stages, nothing fused.
TEST(Stages, OfManyRanks) {
  for (const char* name : {"llama", "gemma2", "qwen3-moe", "deepseek-v2", "olmo2"}) {
    const std::string path = committed_data(std::string("arch/") + name);
    const Logits one = run_both(Model::load(path, {.context = 64}), 1);
    for (const auto& [tp, pp, threads] : {std::tuple(3, 2, 9), std::tuple(4, 2, 2), std::tuple(2, 3, 6)})
      expect_same_bits(run_both(Model::load(path, {.context = 64, .tp = tp, .pp = pp}), threads), one,
                       fmt::format("{}, {} stages of {}", name, pp, tp));
    const Model unfused = Model::load(path, {.context = 64, .fuse_off = {"all"}, .tp = 2, .pp = 2});
    expect_same_bits(run_both(unfused, 4), one, fmt::format("{}, unfused", name));
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
  for (const auto& [tp, pp] : {std::pair(1, 2), std::pair(1, 3), std::pair(2, 2), std::pair(2, 3)}) {
    SCOPED_TRACE(fmt::format("{} stages of {}", pp, tp));
    const Model model = Model::load(path, {.context = 64, .tp = tp, .pp = pp});
    LocalEngine engine(model, config);
    EXPECT_EQ(answers(engine, 7), want);
    const EngineStats stats = engine.core().stats();
    EXPECT_GT(stats.ahead, stats.steps / 2);
    const auto all_ended = [&](const std::vector<RankUse>& all) {
      return std::ranges::all_of(all, [&](const RankUse& use) { return use.counts.steps == stats.steps; });
    };
    const std::vector<RankUse> known = known_once(all_ended);
    ASSERT_EQ(known.size(), static_cast<size_t>(tp * pp));
    EXPECT_TRUE(all_ended(known));
    for (const RankUse& use : known) {
      const auto sent = [&](CommKind kind) { return use.counts.bytes[static_cast<size_t>(kind)]; };
      EXPECT_EQ(&use - known.data(), use.rank);
      EXPECT_TRUE(use.alive);
      // The others of the last stage have nobody to tell.
      EXPECT_EQ(sent(CommKind::kMessage) > 8, use.rank == 0 || use.rank >= tp) << use.rank;
      EXPECT_EQ(sent(CommKind::kAllGather) > 0, tp > 1) << use.rank;
      EXPECT_EQ(sent(CommKind::kGather) > 0, use.rank > 0 && use.rank < tp) << use.rank;  // logits
    }
  }
}

// Experts spread over the ranks of each stage, which has its own layers' uses.
TEST(Stages, OfRanksWithWholeExperts) {
  for (const char* name : {"qwen3-moe", "deepseek-v2", "gpt-oss"}) {
    const std::string path = committed_data(std::string("arch/") + name);
    const Model whole = Model::load(path, {.context = 64});
    std::vector<std::vector<int64_t>> uses;
    for (const Node& node : whole.graph.nodes) {
      const auto* router = std::get_if<RouterTopk>(&node.op);
      if (router == nullptr) continue;
      uses.emplace_back(static_cast<size_t>(router->logits.cols), 10).at(uses.size() % 3) = 100;
    }
    const Logits one = run_both(whole, 1);
    for (const auto& known : {std::vector<std::vector<int64_t>>(), uses})
      expect_same_bits(run_both(Model::load(path, {.context = 64, .ep = 2, .expert_uses = known, .pp = 2}), 4), one,
                       name);
  }
}

// Each stage has the cache of its own layers.
TEST(Stages, TheCacheIsShared) {
  const Model one = Model::load(committed_data("arch/llama"), {.context = 64});
  LocalEngine whole(one, small_config(1));
  for (const int tp : {1, 2}) {
    const Model two = Model::load(committed_data("arch/llama"), {.context = 64, .tp = tp, .pp = 2});
    LocalEngine staged(two, small_config(2 * tp));
    EXPECT_EQ(whole.device().kv_bytes(), staged.device().kv_bytes());
    EXPECT_LT(staged.device().program().kv_groups[0].n_layers, one.graph.kv_groups[0].n_layers);
    EXPECT_EQ(staged.device().program().kv_groups[0].kv_heads, 2 / tp);
  }
}

TEST(Stages, MoreThanThereArePlacesAreRefused) {
  const auto refusal = [](int tp, int pp) -> std::string {
    try {
      Model::load(committed_data("arch/llama"), {.context = 64, .tp = tp, .pp = pp});
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal(1, 4), "");
  EXPECT_EQ(refusal(1, 64), "[pp] 64 stages for a model that can be cut into 4");
  EXPECT_EQ(refusal(2, 64), "[pp] 64 stages for a model that can be cut into 4");
  EXPECT_EQ(refusal(5, 2), "[tp] 5 ranks for 4 heads of attention: each needs one");
}

// A rank that fails in a step, of whichever stage: each request ends with an error at once.
class StagesWithALostRank : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(StagesWithALostRank, EveryRequestEnds) {
  const auto [tp, pp, lost] = GetParam();
  const Model model = Model::load(committed_data("arch/llama"), {.context = 64, .tp = tp, .pp = pp});
  Engine engine(model, small_config(tp * pp));
  std::atomic<int> steps{0};
  engine.call([&](LocalEngine& local) {
    dynamic_cast<CpuModel&>(local.device()).ranks()->on_step = [&](int rank) {
      if (rank == lost && ++steps == 3) throw std::runtime_error("no memory");
    };
  });
  const auto began = std::chrono::steady_clock::now();
  const auto ask = [&] {
    Request request;
    request.prompt = some_tokens(5, 1);
    request.max_tokens = 40;
    return engine.submit(std::move(request));
  };
  for (const Submission& submitted : {ask(), ask(), ask()}) {
    FinishReason finish = FinishReason::kNone;
    while (const auto event = submitted.stream->next()) finish = event->finish;
    EXPECT_EQ(finish, FinishReason::kError);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_NE(engine.lost().find(fmt::format("rank {}: no memory", lost)), std::string::npos) << engine.lost();
  EXPECT_FALSE(known_once([&](const auto& all) { return !all.at(size_t(lost)).alive; }).at(size_t(lost)).alive);
}

INSTANTIATE_TEST_SUITE_P(Some, StagesWithALostRank,
                         testing::Values(std::tuple(1, 3, 1), std::tuple(1, 3, 2), std::tuple(2, 2, 1),
                                         std::tuple(2, 2, 2), std::tuple(2, 2, 3), std::tuple(2, 3, 5)));

}  // namespace
}  // namespace ingot
