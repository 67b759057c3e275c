// What the engine promises on a CUDA device: recorded steps, overlapping kernels and padding change nothing, and
// nothing is left behind.
#include "engine/model/cuda.h"

#include <cstdlib>
#include <map>
#include <set>

#include "base/error.h"
#include "engine/model/cuda_test_support.h"
#include "golden/support.h"
#include "graph/program.h"
#include "tensor/cuda.h"

namespace ingot {
namespace {

using LogitRows = std::vector<std::vector<float>>;

struct Answer {
  std::vector<int32_t> tokens;
  LogitRows logits;  // of the rows that made them
  bool operator==(const Answer&) const = default;
};

// Greedy answers to prompts of several lengths, all at once.
std::vector<Answer> answers(Model& model, const EngineConfig& options, const std::vector<int>& prompts, int n) {
  LocalEngine engine(model, options);
  std::vector<Answer> all(prompts.size());
  std::map<SeqId, size_t> index;
  for (size_t s = 0; s < prompts.size(); ++s) {
    Request request;
    request.prompt = some_tokens(prompts[s], static_cast<int>(s) + 1);
    request.max_tokens = n;
    request.sampling.temperature = 0;
    request.logits_from = prompts[s] - 1;
    request.on_logits = [&all, s](int, std::span<const float> row) {
      all[s].logits.emplace_back(row.begin(), row.end());
    };
    index[engine.submit(std::move(request)).id] = s;
  }
  while (!engine.idle()) {
    for (const Event& event : engine.step()) all[index.at(event.request)].tokens.push_back(event.sample.token);
  }
  return all;
}

// The largest difference of two greedy answers' logits as long as their tokens agree; a token may differ only where the
// first answer's two best are nearly equal.
void expect_near(const std::vector<Answer>& got, const std::vector<Answer>& want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t s = 0; s < want.size(); ++s) {
    ASSERT_EQ(got[s].tokens.size(), want[s].tokens.size()) << "seq " << s;
    for (size_t i = 0; i < want[s].tokens.size(); ++i) {
      std::vector<float> row = want[s].logits[i];
      for (size_t v = 0; v < row.size(); ++v)
        ASSERT_NEAR(got[s].logits[i][v], row[v], tolerance) << "seq " << s << ", row " << i;
      std::ranges::nth_element(row, row.begin() + 1, std::greater{});
      if (row[0] - row[1] < 2 * tolerance) break;
      ASSERT_EQ(got[s].tokens[i], want[s].tokens[i]) << "seq " << s << ", token " << i;
    }
  }
}

TEST(CudaModel, GreedyTokensEqualTheCpus) {
  NEEDS_DEVICE();
  const std::vector<int> prompts = {3, 20, 1, 9};
  Model cpu = random_model(Format::kF32, DType::kF32, false), gpu = random_model(Format::kF32, DType::kF32, false);
  expect_near(answers(gpu, options_of({.cuda = 0}), prompts, 6), answers(cpu, options_of({}), prompts, 6), 1e-3f);
}

TEST(CudaModel, Bf16TokensEqualTheCpus) {
  NEEDS_DEVICE();
  const std::vector<int> prompts = {5, 18};
  Model cpu = random_model(Format::kBF16, DType::kF32, false), gpu = random_model(Format::kBF16, DType::kBF16, false);
  EngineConfig reference = options_of({});
  reference.kernels = Kernels::kRef;
  expect_near(answers(gpu, options_of({.cuda = 0}), prompts, 5), answers(cpu, reference, prompts, 5), 0.15f);
}

// Values that the device makes for itself are those that the host makes.
TEST(CudaModel, RandomWeightsOfTheDeviceAreTheHosts) {
  NEEDS_DEVICE();
  for (const Format format : {Format::kBF16, Format::kF32}) {
    Model made = random_model(format, DType::kF32, true), given = random_model(format, DType::kF32, false);
    const EngineConfig options = options_of({.cuda = 0});
    EXPECT_EQ(answers(made, options, {4}, 2), answers(given, options, {4}, 2)) << format_name(format);
  }
}

TEST(CudaModel, RecordedStepsAndOverlapChangeNothing) {
  NEEDS_DEVICE();
  const std::vector<int> prompts = {3, 20, 9};
  for (const Format format : {Format::kBF16, Format::kF32}) {
    Model model = random_model(format, DType::kF32, false);
    const std::vector<Answer> plain =
        answers(model, options_of({.cuda = 0, .graphs = false, .overlap = false}), prompts, 8);
    EXPECT_EQ(answers(model, options_of({.cuda = 0, .overlap = false}), prompts, 8), plain) << "recorded";
    EXPECT_EQ(answers(model, options_of({.cuda = 0}), prompts, 8), plain) << "recorded, with overlap";
    EXPECT_EQ(answers(model, options_of({.cuda = 0, .graphs = false}), prompts, 8), plain) << "with overlap";
  }
}

// Three seqs are padded to four, and limits that nobody reaches change buckets and places: the same bits.
TEST(CudaModel, LargerLimitsChangeNothing) {
  NEEDS_DEVICE();
  const std::vector<int> prompts = {3, 11, 6};
  Model model = random_model(Format::kBF16, DType::kBF16, false);
  EngineConfig large = options_of({.cuda = 0});
  large.max_seqs = 9;
  large.step_rows = 200;
  EXPECT_EQ(answers(model, large, prompts, 4), answers(model, options_of({.cuda = 0}), prompts, 4));
}

TEST(CudaModel, BatchInvariantAnswersDoNotDependOnTheBatch) {
  NEEDS_DEVICE();
  Model model = random_model(Format::kBF16, DType::kBF16, false);
  const EngineConfig options = options_of({.cuda = 0, .batch_invariant = true});
  const std::vector<Answer> alone = answers(model, options, {7}, 4);
  EXPECT_EQ(answers(model, options, {7, 20, 3}, 4)[0], alone[0]);
}

// So few pages that seqs are set back, and some leave early: every page comes back, and so does all memory.
TEST(CudaModel, CancelsAndPreemptionsLeaveNothingBehind) {
  NEEDS_DEVICE();
  cuda::use_device(0);
  Model model = random_model(Format::kF32, DType::kF32, false);
  { const std::vector<Answer> first = answers(model, options_of({.cuda = 0}), {2}, 2); }  // kernels are loaded
  const int64_t before = cuda::device_facts().free_bytes;
  {
    EngineConfig options = options_of({.cuda = 0});
    options.pages = 9;
    options.prefix_cache = false;
    LocalEngine engine(model, options);
    std::vector<SeqId> ids;
    for (int s = 0; s < 5; ++s) {
      Request request;
      request.prompt = some_tokens(20 + s, s);
      request.max_tokens = 60;
      request.sampling.temperature = 0.8f;
      ids.push_back(engine.submit(std::move(request)).id);
    }
    for (int i = 0; i < 3; ++i) engine.step();
    EXPECT_TRUE(engine.cancel(ids[1]));
    std::set<SeqId> ended;
    while (!engine.idle()) {
      for (const Event& event : engine.step()) {
        EXPECT_NE(event.finish, FinishReason::kError);
        if (event.finish != FinishReason::kNone) ended.insert(event.request);
      }
    }
    EXPECT_EQ(ended.size(), 4u);
    EXPECT_GT(engine.core().stats().preempted, 0);
    EXPECT_EQ(engine.core().stats().free_pages, engine.core().stats().pages);
  }
  // Of a real device others have a part, and its driver keeps some for itself.
  const int64_t slack = cuda::is_emulated() ? 0 : int64_t{64} << 20;
  EXPECT_GE(cuda::device_facts().free_bytes + slack, before);
}

// Choices share the prompt's pages until they write: the page that both continue is copied on the device.
TEST(CudaModel, ChoicesShareThePromptsPages) {
  NEEDS_DEVICE();
  Model model = random_model(Format::kF32, DType::kF32, false);
  const std::vector<Answer> alone = answers(model, options_of({.cuda = 0}), {21}, 4);
  LocalEngine engine(model, options_of({.cuda = 0}));
  Request request;
  request.prompt = some_tokens(21, 1);
  request.max_tokens = 4;
  request.sampling.temperature = 0;
  request.choices = 2;
  engine.submit(std::move(request));
  std::map<int, std::vector<int32_t>> tokens;
  while (!engine.idle()) {
    for (const Event& event : engine.step()) tokens[event.choice].push_back(event.sample.token);
  }
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_EQ(tokens[0][0], alone[0].tokens[0]);
}

TEST(CudaModel, HiddenStatesAreTheCpus) {
  NEEDS_DEVICE();
  const auto states = [](const EngineDevice& device) {
    Model model = Model::load(fixture("arch/llama"), {.context = 64, .keep_last = true});
    LocalEngine engine(model, options_of(device));
    LogitRows rows;
    Request request;
    request.prompt = some_tokens(9, 3);
    request.max_tokens = 0;
    request.on_hidden = [&](int, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); };
    engine.submit(std::move(request));
    while (!engine.idle()) engine.step();
    return rows;
  };
  const LogitRows got = states({.cuda = 0}), want = states({});
  ASSERT_EQ(got.size(), 9u);
  for (size_t r = 0; r < got.size(); ++r) EXPECT_LE(nmse(got[r], want[r]), 1e-8) << "row " << r;
}

TEST(CudaModel, ReportsItsMemory) {
  NEEDS_DEVICE();
  Model model = random_model(Format::kBF16, DType::kBF16, false);
  LocalEngine engine(model, options_of({.cuda = 0}));
  const DeviceUse use = engine.device().use();
  EXPECT_TRUE(use.name.starts_with("cuda:0 ")) << use.name;
  EXPECT_GT(use.weight_bytes, 2 * 64 * 256);
  EXPECT_GT(use.step_bytes, 0);
  EXPECT_GT(use.total_bytes, use.free_bytes);
}

// What others take of it later is seen.
TEST(CudaModel, FreeMemoryIsThatOfNow) {
  NEEDS_DEVICE();
  if (!cuda::is_emulated()) GTEST_SKIP() << "others use a real device";
  Model model = random_model(Format::kBF16, DType::kBF16, false);
  const Engine engine(model, options_of({.cuda = 0}));
  const int64_t before = engine.device().free_bytes;
  const cuda::DeviceMemory taken(1 << 20);
  EXPECT_EQ(engine.device().free_bytes, before - (1 << 20));
}

TEST(CudaModel, ProfilesEveryNode) {
  NEEDS_DEVICE();
  Model model = random_model(Format::kBF16, DType::kBF16, false);
  LocalEngine engine(model, options_of({.cuda = 0}));
  engine.device().profile(true);
  Request request;
  request.prompt = some_tokens(5, 1);
  request.max_tokens = 2;
  engine.submit(std::move(request));
  while (!engine.idle()) engine.step();
  ASSERT_EQ(engine.device().node_seconds().size(), model.graph.nodes.size());
  if (!cuda::is_emulated()) {
    for (const double seconds : engine.device().node_seconds()) EXPECT_GT(seconds, 0);
  }
}

std::string error_of(Model& model, const EngineConfig& options) {
  try {
    const LocalEngine engine(model, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(CudaModel, SaysWhatIsNotThere) {
  NEEDS_DEVICE();
  Model model = random_model(Format::kF32, DType::kF32, false);
  EXPECT_NE(error_of(model, options_of({.cuda = 99})).find("99"), std::string::npos);
  EXPECT_NE(cuda_refusal(99), "");
}

// Of the emulated device's memory, while it lives.
class WithMemory {
 public:
  explicit WithMemory(int64_t bytes) { setenv("INGOT_EMULATED_BYTES", std::to_string(bytes).c_str(), 1); }
  ~WithMemory() { unsetenv("INGOT_EMULATED_BYTES"); }
};

TEST(CudaModel, SaysThatOthersHaveAllMemory) {
  if (!cuda::is_emulated()) GTEST_SKIP() << "the memory of a real device is not set by a test";
  const WithMemory none(0);
  const std::string why = cuda_refusal(0);
  EXPECT_NE(why.find("memory"), std::string::npos) << why;
  EXPECT_EQ(why.find_first_of("[\n"), std::string::npos) << why;
}

// A cache of so many bytes is there or refused, with what would fit; only one of no given size takes what there is.
TEST(CudaModel, KvMemoryIsNeverCut) {
  NEEDS_DEVICE();
  if (!cuda::is_emulated()) GTEST_SKIP() << "the memory of a real device is not set by a test";
  constexpr int64_t kBytes = 8 << 20, kPage = 2 * 2 * 16 * 2 * 16 * 2;  // layers · (k, v) · rows · heads · dim · bytes
  const WithMemory some(kBytes);
  Model model = random_model(Format::kBF16, DType::kBF16, false);
  EngineConfig options = options_of({.cuda = 0});
  int early = 0, late = 0;
  options.kv_bytes = kBytes;
  for (std::string error; !(error = error_of(model, options)).empty(); options.kv_bytes -= 32 * kPage) {
    EXPECT_NE(error.find("missing"), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    ++(error.find("a smaller --kv-memory would fit") != std::string::npos ? early : late);
    ASSERT_GT(options.kv_bytes, 32 * kPage) << error;
  }
  EXPECT_GT(early, 0);  // before weights are read
  EXPECT_GT(late, 0);   // by what is left after them
  EXPECT_EQ(LocalEngine(model, options).device().pages()[0], options.kv_bytes / kPage);
  options.kv_bytes = kAllFreeBytes;
  EXPECT_GT(LocalEngine(model, options).device().pages()[0], 8);
}

// How much is missing and what would fit: for weights, and for the cache.
TEST(CudaModel, SaysHowMuchMemoryIsMissing) {
  NEEDS_DEVICE();
  if (!cuda::is_emulated()) GTEST_SKIP() << "the memory of a real device is not set by a test";
  Model model = random_model(Format::kF32, DType::kF32, false);
  const WithMemory little(100000);
  const std::string weights = error_of(model, options_of({.cuda = 0}));
  EXPECT_NE(weights.find("missing"), std::string::npos) << weights;
  EXPECT_NE(weights.find("smaller format"), std::string::npos) << weights;
  EXPECT_EQ(weights.find('\n'), std::string::npos);
}

// With BF16 weights and cache, what products and attention read as it is: q, what attention gives, the GLU. The
// graph itself stays as it was.
TEST(CudaTypes, OnlyWhatIsRoundedAnyway) {
  const Model bf16 = random_model(Format::kBF16, DType::kBF16, false);
  const Model f32 = random_model(Format::kF32, DType::kF32, false);
  const StepLimits limits{.rows = 64, .seqs = 1, .logits = 16, .context = 128, .page_rows = 16};
  const auto lowered = [](const Graph& graph) {
    return std::ranges::count_if(graph.values, [](const Value& v) { return v.dtype == DType::kBF16; });
  };
  Program program = compile(bf16.graph, {.limits = limits, .bf16 = true});
  EXPECT_EQ(lowered(program), 2 * 3 + 1);  // of two layers, and the last attention's rows for the head
  for (Node& node : program.nodes) {
    if (const auto* attention = match<Attention>(node)) {
      EXPECT_EQ(attention->q.dtype, DType::kBF16);
      EXPECT_EQ(attention->out.dtype, DType::kBF16);
    }
  }
  EXPECT_EQ(lowered(bf16.graph), 0);
  EXPECT_EQ(lowered(compile(f32.graph, {.limits = limits, .bf16 = true})), 0);
  // Over another cache attention does not round q.
  EXPECT_LT(lowered(compile(bf16.graph, {.limits = limits, .kv = DType::kF32, .bf16 = true})), 2 * 3 + 1);
}

}  // namespace
}  // namespace ingot
