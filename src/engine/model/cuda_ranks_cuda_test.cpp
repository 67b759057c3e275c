// Several devices that share a model give the logits of one, and a lost one ends every request.
#include "tensor/cuda.h"

#include <atomic>
#include <cstdlib>
#include <map>

#include "engine/engine.h"
#include "engine/model/cuda_model.h"
#include "engine/model/cuda_ranks.h"
#include "engine/model/cuda_test_support.h"
#include "engine/model/ranks_test_support.h"
#include "graph/traits.h"

namespace ingot {
namespace {

// On one device, or on parts of one that each are a rank's.
EngineConfig on_parts(int parts) {
  EngineConfig config = small_config(parts);
  config.device = {.cuda = 0, .parts = parts, .batch_invariant = true};
  return config;
}

Logits logits_on(const Model& model, const EngineConfig& config) {
  LocalEngine engine(model, config);
  Logits logits, other;
  submit(engine, some_tokens(17, 1), logits);
  submit(engine, some_tokens(9, 2), other);
  while (!engine.idle()) engine.step();
  logits.insert(logits.end(), other.begin(), other.end());
  return logits;
}

// Else rows are rounded to bf16 in front of each product.
bool all_f32(const Model& model) {
  bool f32 = true;
  for (const Node& node : model.graph.nodes)
    each_matrix(node.op, [&](const Weight& weight, const PackedWeight*) { f32 &= weight.format == Format::kF32; });
  return f32;
}

class CudaRanksOfArchitecture : public testing::TestWithParam<std::string> {};

// Bit for bit where no norm reads what was gathered in place of what a product's kernel has normed on its way.
TEST_P(CudaRanksOfArchitecture, LogitsOfOne) {
  NEEDS_DEVICE();
  const std::string path = committed_data("arch/" + GetParam());
  const Model whole = Model::load(path, {.context = 64});
  const Logits one = logits_on(whole, on_parts(1));
  ASSERT_EQ(one.size(), 26u);
  const bool f32 = all_f32(whole);
  const bool is_llama = GetParam() == "llama", also_four = is_llama || GetParam() == "qwen3-moe";
  for (const int ranks : also_four ? std::vector{2, 4} : std::vector{2}) {
    const Logits several = logits_on(Model::load(path, {.context = 64, .tp = ranks}), on_parts(ranks));
    EXPECT_LE(nmse_of(several, one), f32 ? 1e-6 : 1e-4) << ranks << " ranks";
    if (is_llama) expect_same_bits(several, one, std::to_string(ranks) + " ranks");
  }
  // Products cut by their inputs, with sums over ranks behind them.
  for (const int ranks : is_llama ? std::vector{2, 4} : std::vector{2}) {
    const Model model = Model::load(path, {.context = 64, .tp = ranks, .tp_form = ShardForm::kReduce});
    EXPECT_LE(nmse_of(logits_on(model, on_parts(ranks)), one), f32 ? 1e-6 : 1e-4) << ranks << " ranks that reduce";
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaRanksOfArchitecture, testing::ValuesIn(architectures_here()),
                         [](const auto& given) { return test_name(given.param); });

// Not by parts of one device but by several, whose ranks meet by the host's memory where they do not reach each other.
TEST(CudaRanks, BitsOfOneOnSeveralDevices) {
  NEEDS_DEVICE();
  if (!cuda_refusal(1).empty()) GTEST_SKIP() << "one device";
  const std::string path = committed_data("arch/llama");
  const Logits one = logits_on(Model::load(path, {.context = 64}), on_parts(1));
  const Model two = Model::load(path, {.context = 64, .tp = 2});
  EngineConfig config = on_parts(1);
  config.device.cudas = {1, 0};
  expect_same_bits(logits_on(two, config), one, "2 devices");
  if (!cuda::is_emulated()) return;
  setenv("INGOT_EMULATED_PEERS", "none", 1);
  expect_same_bits(logits_on(two, config), one, "2 devices, by the host");
  unsetenv("INGOT_EMULATED_PEERS");
}

// Greedy answers of the reduce form are those of one device, in recorded graphs, and its sums do not depend on what the
// ranks' devices are.
TEST(CudaRanks, ReducedAnswersAndBits) {
  NEEDS_DEVICE();
  const std::string path = committed_data("arch/llama");
  const Model two = Model::load(path, {.context = 64, .tp = 2, .tp_form = ShardForm::kReduce});
  const Logits parts = logits_on(two, on_parts(2));
  if (cuda_refusal(1).empty()) {
    EngineConfig config = on_parts(1);
    config.device.cudas = {1, 0};
    expect_same_bits(logits_on(two, config), parts, "2 devices");
  }
  const auto answer = [&](const Model& model, int ranks) {
    LocalEngine engine(model, on_parts(ranks));
    std::vector<int32_t> tokens;
    for (int i = 0; i < 4; ++i) {
      Request request;
      request.prompt = some_tokens(4 + 3 * i, i);
      request.max_tokens = 12;
      request.sampling.temperature = 0;
      EXPECT_EQ(engine.submit(std::move(request)).refused, "");
      while (!engine.idle())
        for (const Event& event : engine.step())
          if (event.sample.token >= 0) tokens.push_back(event.sample.token);
    }
    return tokens;
  };
  EXPECT_EQ(answer(two, 2), answer(Model::load(path, {.context = 64}), 1));
}

// Steps of all kinds, given as they come and as recorded graphs, with answers that are sampled: greedy and drawn.
TEST(CudaRanks, AnswersOfOne) {
  NEEDS_DEVICE();
  const auto answers = [](int ranks, bool graphs) {
    const Model model = Model::load(committed_data("arch/llama"), {.context = 64, .tp = ranks});
    EngineConfig config = on_parts(ranks);
    config.device.graphs = graphs;
    LocalEngine engine(model, config);
    std::map<std::pair<SeqId, int>, std::vector<int32_t>> tokens;
    for (int i = 0; i < 4; ++i) {
      Request request;
      request.prompt = some_tokens(3 + 5 * i, i);
      request.max_tokens = 9;
      request.choices = 1 + i % 2;
      request.sampling.temperature = i % 2 == 0 ? 0 : 0.9f;
      request.sampling.seed = 3;
      EXPECT_EQ(engine.submit(std::move(request)).refused, "");
    }
    while (!engine.idle())
      for (const Event& event : engine.step())
        if (event.sample.token >= 0) tokens[{event.request, event.choice}].push_back(event.sample.token);
    return tokens;
  };
  const auto one = answers(1, true);
  ASSERT_EQ(one.size(), 6u);
  EXPECT_EQ(answers(2, true), one);
  EXPECT_EQ(answers(2, false), one);
}

TEST(CudaRanks, AreKnownWithWhatTheyDo) {
  NEEDS_DEVICE();
  const Model model = Model::load(committed_data("arch/llama"), {.context = 64, .tp = 2});
  const Model whole = Model::load(committed_data("arch/llama"), {.context = 64});
  {
    LocalEngine engine(model, on_parts(2)), one(whole, on_parts(1));
    EXPECT_EQ(engine.device().kv_bytes(), one.device().kv_bytes());
    EXPECT_EQ(engine.device().pages(), one.device().pages());
    EXPECT_EQ(engine.device().use().name.substr(0, 9), "cuda:0/2 ");
    logits_of(engine, some_tokens(20, 1));
    const std::vector<RankUse> known = known_once([](const auto& all) {  // the others may be a little behind rank 0
      return all.size() == 2 && all[0].counts.steps == all[1].counts.steps;
    });
    ASSERT_EQ(known.size(), 2u);
    for (const RankUse& rank : known) {
      EXPECT_TRUE(rank.alive);
      EXPECT_EQ(rank.counts.steps, known[0].counts.steps);
      EXPECT_GT(rank.counts.step_ns, 0);
      EXPECT_GT(rank.counts.bytes[static_cast<size_t>(CommKind::kAllGather)], 0);
    }
    EXPECT_GT(known[0].counts.bytes[static_cast<size_t>(CommKind::kMessage)], 0);  // the steps
    EXPECT_GT(known[1].counts.bytes[static_cast<size_t>(CommKind::kGather)], 0);   // its logits
  }
  EXPECT_TRUE(known_ranks().empty());
}

// A rank that fails in a step: the request ends with an error at once, and whoever comes after it too.
TEST(CudaRanks, ALostRankEndsEveryRequest) {
  NEEDS_DEVICE();
  const Model model = Model::load(committed_data("arch/llama"), {.context = 64, .tp = 3});
  Engine engine(model, on_parts(3));
  std::atomic<int> steps{0};
  engine.call([&](LocalEngine& local) {
    dynamic_cast<CudaModel&>(local.device()).ranks()->on_step = [&](int rank) {
      if (rank == 2 && ++steps == 3) throw std::runtime_error("no memory");
    };
  });
  const auto ask = [&] {
    Request request;
    request.prompt = some_tokens(5, 1);
    request.max_tokens = 40;
    return engine.submit(std::move(request));
  };
  for (const Submission& submitted : {ask(), ask()}) {
    FinishReason finish = FinishReason::kNone;
    while (const auto event = submitted.stream->next()) finish = event->finish;
    EXPECT_EQ(finish, FinishReason::kError);
  }
  EXPECT_NE(engine.lost().find("step 3: "), std::string::npos) << engine.lost();
  EXPECT_NE(engine.lost().find("rank 2: no memory"), std::string::npos) << engine.lost();
  EXPECT_FALSE(known_once([](const auto& all) { return !all.at(2).alive; }).at(2).alive);
}

// What does not fit on one of them is said as of one device.
TEST(CudaRanks, SayHowMuchMemoryIsMissing) {
  NEEDS_DEVICE();
  if (!cuda::is_emulated()) GTEST_SKIP() << "the memory of a real device is not set by a test";
  const Model model = Model::load(committed_data("arch/llama"), {.context = 64, .tp = 2});
  setenv("INGOT_EMULATED_BYTES", "100000", 1);
  std::string told;
  try {
    const LocalEngine engine(model, on_parts(2));
  } catch (const Error& error) {
    told = error.what();
  }
  unsetenv("INGOT_EMULATED_BYTES");
  EXPECT_TRUE(told.starts_with("[device] emulated has ")) << told;
  EXPECT_NE(told.find("missing"), std::string::npos) << told;
}

}  // namespace
}  // namespace ingot
