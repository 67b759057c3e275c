// Several ranks give the bits of one: every architecture, every format, and requests side by side.
#include "engine/model/ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/data_test_support.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/model/cpu_model.h"
#include "engine/model/ranks_test_support.h"
#include "quant/format_test_support.h"

namespace ingot {
namespace {

class RanksOfArchitecture : public testing::TestWithParam<std::string> {};

TEST_P(RanksOfArchitecture, BitsOfOne) {
  const std::string path = committed_data("arch/" + GetParam());
  const ModelOptions options{.context = 64};
  const Logits one = run_both(Model::load(path, options), 1);
  ASSERT_EQ(one.size(), 65u);
  for (const int ranks : {2, 3, 4}) {
    ModelOptions several = options;
    several.tp = ranks;
    expect_same_bits(run_both(Model::load(path, several), ranks), one, std::to_string(ranks) + " ranks");
  }
  ModelOptions unfused = options;
  unfused.tp = 2;
  unfused.fuse_off = {"all"};
  expect_same_bits(run_both(Model::load(path, unfused), 2), one, "2 ranks, unfused");
}

INSTANTIATE_TEST_SUITE_P(All, RanksOfArchitecture, testing::ValuesIn(architectures_here()),
                         [](const auto& given) { return test_name(given.param); });

// Rows of q and k in the order of interleaved rotation, and stacks of experts.
TEST(Ranks, GgufFiles) {
  std::vector<std::string> files{committed_data("models/stories260K/stories260K.gguf")};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(committed_data("arch-gguf")))
    if (entry.path().extension() == ".gguf") files.push_back(entry.path().string());
  ASSERT_GT(files.size(), 3u);
  for (const std::string& file : files) {
    const Logits one = run_both(Model::load(file, {.context = 64}), 1);
    for (const int ranks : {2, 3})
      expect_same_bits(run_both(Model::load(file, {.context = 64, .tp = ranks}), ranks), one,
                       file + ", " + std::to_string(ranks) + " ranks");
  }
}

TEST(Ranks, EveryFormat) {
  for (const Format format : test::all_formats()) {
    const auto load = [&](int ranks) {
      return Model::random(small_llama({.hidden = 256, .head_dim = 64, .context = 64}),
                           [format](const std::string&) { return format; }, {.context = 64, .tp = ranks});
    };
    const Logits one = run_both(load(1), 1);
    for (const int ranks : {2, 3, 4})
      expect_same_bits(run_both(load(ranks), ranks), one,
                       std::string(format_name(format)) + ", " + std::to_string(ranks) + " ranks");
  }
}

TEST(Ranks, CachesAndThreads) {
  const std::string path = committed_data("arch/llama");
  for (const DType kv : {DType::kF16, DType::kBF16, DType::kFp8, DType::kQ8_0}) {
    const Logits one = run_both(Model::load(path, {.context = 64, .kv = kv}), 1);
    expect_same_bits(run_both(Model::load(path, {.context = 64, .kv = kv, .tp = 2}), 3), one,
                     std::string(dtype_name(kv)));
  }
}

TEST(Ranks, TheReferenceToo) {
  const std::string path = committed_data("arch/qwen3-moe");
  Logits logits[2];
  for (const int ranks : {1, 2}) {
    const Model model = Model::load(path, {.context = 64, .fuse_off = {"all"}, .tp = ranks});
    EngineConfig config = small_config(ranks);
    config.kernels = Kernels::kRef;
    LocalEngine engine(model, config);
    logits[ranks - 1] = logits_of(engine, some_tokens(20, 1));
  }
  expect_same_bits(logits[1], logits[0], "reference, 2 ranks");
}

// Where ranks are processes, each has its own part, as it is where they are threads, and copies no other's columns.
TEST(Ranks, AProcessHasItsOwnPartAlone) {
  for (const ShardForm form : {ShardForm::kGather, ShardForm::kReduce}) {
    const auto load = [&](int own_rank) {
      return Model::load(committed_data("arch/llama"),
                         {.context = 64, .tp = 2, .tp_form = form, .own_rank = own_rank, .pp = 2});
    };
    const Model threads = load(-1);
    ASSERT_EQ(threads.ranks.size(), 4u);
    int64_t copied = 0;  // beside what each of them copies of norms
    const int64_t uncut = Model::load(committed_data("arch/llama"), {.context = 64}).weights->copied_bytes();
    for (size_t own = 0; own < 4; ++own) {
      const Model process = load(static_cast<int>(own));
      ASSERT_EQ(process.ranks.size(), 4u);
      for (size_t r = 0; r < 4; ++r)
        EXPECT_EQ(process.ranks[r].nodes.size(), r == own ? threads.ranks[r].nodes.size() : 0) << r << " of " << own;
      copied += process.weights->copied_bytes() - uncut;
    }
    EXPECT_EQ(copied, threads.weights->copied_bytes() - uncut);
    EXPECT_EQ(copied > 0, form == ShardForm::kReduce);
  }
}

TEST(Ranks, MoreThanHeadsAreRefused) {
  try {
    Model::load(committed_data("arch/llama"), {.context = 64, .tp = 5});
    ADD_FAILURE() << "5 ranks have 4 heads";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[tp] 5 ranks for 4 heads of attention: each needs one");
  }
}

// Each rank has its own heads' keys and values, and no rank has all.
TEST(Ranks, TheCacheIsShared) {
  const Model one = Model::load(committed_data("arch/llama"), {.context = 64});
  const Model two = Model::load(committed_data("arch/llama"), {.context = 64, .tp = 2});
  LocalEngine whole(one, small_config(1)), shared(two, small_config(2));
  EXPECT_EQ(whole.device().kv_bytes(), shared.device().kv_bytes());
  EXPECT_EQ(shared.device().program().kv_groups[0].kv_heads, 1);
}

TEST(Ranks, AreKnownWithWhatTheyDo) {
  const Model model = Model::load(committed_data("arch/llama"), {.context = 64, .tp = 2});
  {
    LocalEngine engine(model, small_config(2));
    logits_of(engine, some_tokens(20, 1));
    const std::vector<RankUse> known = known_once([](const auto& all) {  // the others may be a little behind rank 0
      return all.size() == 2 && all[0].counts.steps == all[1].counts.steps;
    });
    ASSERT_EQ(known.size(), 2u);
    for (int r = 0; r < 2; ++r) {
      const RankUse& one = known[static_cast<size_t>(r)];
      EXPECT_EQ(one.rank, r);
      EXPECT_TRUE(one.alive);
      EXPECT_EQ(one.counts.steps, known[0].counts.steps);
      EXPECT_GT(one.counts.steps, 0);
      EXPECT_GT(one.counts.bytes[static_cast<size_t>(CommKind::kAllGather)], 0);
      EXPECT_GT(one.counts.collective_ns, 0);
      EXPECT_GT(one.counts.step_ns, one.counts.collective_ns);
    }
    EXPECT_GT(known[0].counts.bytes[static_cast<size_t>(CommKind::kMessage)], 0);  // the steps
    EXPECT_GT(known[1].counts.bytes[static_cast<size_t>(CommKind::kGather)], 0);   // its logits
  }
  EXPECT_TRUE(known_ranks().empty());
}

// A rank that fails in a step: the request ends with an error at once, and whoever comes after it too.
TEST(Ranks, ALostRankEndsEveryRequest) {
  const Model model = Model::load(committed_data("arch/llama"), {.context = 64, .tp = 3});
  Engine engine(model, small_config(3));
  std::atomic<int> steps{0};
  engine.call([&](LocalEngine& local) {
    dynamic_cast<CpuModel&>(local.device()).ranks()->on_step = [&](int rank) {
      if (rank == 2 && ++steps == 3) throw std::runtime_error("no memory");
    };
  });
  const auto ask = [&] {
    Request request;
    request.prompt = some_tokens(5, 1);
    request.max_tokens = 40;
    return engine.submit(std::move(request));
  };
  const auto began = std::chrono::steady_clock::now();
  for (const Submission& submitted : {ask(), ask()}) {
    FinishReason finish = FinishReason::kNone;
    while (const auto event = submitted.stream->next()) finish = event->finish;
    EXPECT_EQ(finish, FinishReason::kError);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_NE(engine.lost().find("step 3: in all_gather"), std::string::npos) << engine.lost();
  EXPECT_NE(engine.lost().find("rank 2: no memory"), std::string::npos) << engine.lost();
  EXPECT_FALSE(known_once([](const auto& all) { return !all.at(2).alive; }).at(2).alive);
}

}  // namespace
}  // namespace ingot
