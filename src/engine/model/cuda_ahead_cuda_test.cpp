// A step that is launched before the one in front has ended finds that one's tokens on the device.
#include "tensor/cuda.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <thread>

#include "engine/engine.h"
#include "engine/model/cuda_test_support.h"

namespace ingot {
namespace {

// While it lives the emulated device does its work as late as it may.
struct LateDevice {
  explicit LateDevice(bool late) {
    if (late) setenv("INGOT_EMULATED_LATE", "1", 1);
  }
  ~LateDevice() { unsetenv("INGOT_EMULATED_LATE"); }
};

struct Told {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  FinishReason finish = FinishReason::kNone;
  bool operator==(const Told&) const = default;
};

struct Asked {
  Request request;
  int from_step = 0;      // when it is submitted
  int cancel_after = -1;  // so many tokens
};

// Answers of all kinds: most of them need nothing of the host, the last does.
std::vector<Asked> requests() {
  std::vector<Asked> all(5);
  for (size_t i = 0; i < all.size(); ++i) {
    Request& r = all[i].request;
    r.prompt = some_tokens(2 + 3 * static_cast<int>(i), static_cast<int>(i) + 1);
    r.max_tokens = 7;
    r.sampling.temperature = i % 2 == 0 ? 0 : 0.9f;
    r.sampling.seed = i;
  }
  // Ends where nobody can foresee it.
  all[0].request.max_tokens = 12;
  all[0].request.min_tokens = 3;
  for (int v = 0; v < 256; v += 2) all[0].request.end_tokens.push_back(v);
  all[1].cancel_after = 3;
  // No token is left: an error, and no row of the step behind may be harmed.
  for (int v = 0; v < 256; ++v)
    all[2].request.sampling.logit_bias.emplace_back(v, -std::numeric_limits<float>::infinity());
  all[3].request.choices = 2;
  all[3].request.sampling.top_p = 0.8f;
  all[3].request.sampling.n_logprobs = 2;
  all[3].from_step = 2;
  all[4].request.max_tokens = 3;
  all[4].request.sampling.repetition_penalty = 1.3f;
  all[4].from_step = 7;
  return all;
}

std::map<std::pair<size_t, int>, Told> answers(Model& model, const EngineDevice& device, bool late,
                                               const std::vector<Asked>& asked, EngineStats& stats, int draft = 0) {
  EngineConfig options = options_of(device);
  options.max_draft = draft;
  options.device.batch_invariant = true;  // who shares a step with whom is not the same
  LocalEngine engine(model, options);
  const LateDevice lag(late);
  std::map<SeqId, size_t> index;
  std::map<std::pair<size_t, int>, Told> told;
  for (int step = 0; step < 1000 && (index.size() < asked.size() || !engine.idle()); ++step) {
    for (size_t i = 0; i < asked.size(); ++i) {
      if (asked[i].from_step == step) index[engine.submit(asked[i].request).id] = i;
    }
    std::vector<SeqId> gone;
    for (const Event& event : engine.step()) {
      const size_t i = index.at(event.request);
      Told& t = told[{i, event.choice}];
      if (event.sample.token >= 0) t.tokens.push_back(event.sample.token);
      for (const TokenLogprob& top : event.sample.top) t.logprobs.push_back(top.logprob);
      t.finish = event.finish;
      if (static_cast<int>(t.tokens.size()) == asked[i].cancel_after) gone.push_back(event.request);
    }
    for (const SeqId id : gone) EXPECT_TRUE(engine.cancel(id));
  }
  EXPECT_TRUE(engine.idle());
  stats = engine.core().stats();
  EXPECT_EQ(stats.free_pages + stats.cached_pages, stats.pages);
  return told;
}

TEST(CudaAhead, AnswersAreThoseOfOneStepAfterAnother) {
  NEEDS_DEVICE();
  Model model = random_model(Format::kBF16, DType::kBF16, false);
  EngineStats stats;
  const std::vector<Asked> asked = requests();
  const auto plain = answers(model, {.cuda = 0, .ahead = false}, false, asked, stats);
  EXPECT_EQ(stats.ahead, 0);
  EXPECT_EQ(plain.at({0, 0}).finish, FinishReason::kStop);
  EXPECT_EQ(plain.at({1, 0}).tokens.size(), 3u);
  EXPECT_EQ(plain.at({2, 0}).finish, FinishReason::kError);
  for (const bool graphs : {true, false}) {
    EXPECT_EQ(answers(model, {.cuda = 0, .graphs = graphs}, true, asked, stats), plain) << graphs;
    EXPECT_GT(stats.ahead, 4);
    EXPECT_GT(stats.orphans, 0);
  }
}

// A third of the tokens may not come; after a multiple of 8 four must, which it proposes. Now and then it takes long.
class Third : public TokenConstraint {
 public:
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Third>(*this); }
  void mask(std::span<uint32_t> words) override {
    if (made_.size() % 5 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const int32_t only = forced();
    for (int32_t t = 0; t < 256; ++t) {
      const bool allowed = only >= 0 ? t == only : (static_cast<size_t>(t) + made_.size()) % 3 != 0;
      if (!allowed) words[static_cast<size_t>(t) / 32] &= ~(1u << (t % 32));
    }
  }
  void advance(int32_t token) override { made_.push_back(token); }
  void rollback(int n) override { made_.resize(made_.size() - static_cast<size_t>(n)); }
  bool proposes() const override { return true; }
  void propose(int max, std::vector<int32_t>& draft) override {
    const size_t before = made_.size();
    for (int32_t next = forced(); next >= 0 && static_cast<int>(draft.size()) < max; next = forced()) {
      draft.push_back(next);
      made_.push_back(next);
    }
    made_.resize(before);
  }

 private:
  int32_t forced() const {
    for (size_t k = 1; k <= std::min<size_t>(4, made_.size()); ++k) {
      const int32_t token = made_[made_.size() - k];
      if (token % 8 == 0) return token + static_cast<int32_t>(k);
    }
    return -1;
  }
  std::vector<int32_t> made_;
};

// The body of the next step runs while masks are made by threads beside the engine's; late ones are drawn later.
TEST(CudaAhead, MasksComeWhenTokensAreDrawn) {
  NEEDS_DEVICE();
  Model model = random_model(Format::kBF16, DType::kBF16, false);
  EngineStats stats;
  std::vector<Asked> asked(4);
  for (size_t i = 0; i < asked.size(); ++i) {
    Request& r = asked[i].request;
    r.prompt = some_tokens(3 + 2 * static_cast<int>(i), static_cast<int>(i) + 1);
    r.max_tokens = 30;
    r.sampling.seed = i;
    r.sampling.n_logprobs = 1;
    if (i > 0) r.constraint = std::make_shared<Third>();
    asked[i].from_step = 3 * static_cast<int>(i);
  }
  asked[2].request.choices = 2;
  const auto plain = answers(model, {.cuda = 0, .ahead = false}, false, asked, stats);
  EXPECT_EQ(stats.ahead, 0);
  for (const int draft : {0, 4}) {
    for (const bool late : {false, true}) {
      EXPECT_EQ(answers(model, {.cuda = 0}, late, asked, stats, draft), plain) << draft << late;
      EXPECT_GT(stats.ahead, 10);
      EXPECT_EQ(stats.accepted > 0, draft > 0);
    }
  }
}

// A profile and named outputs are of one step: none is launched ahead meanwhile, though one was when they were asked
// for.
TEST(CudaAhead, NotWhereEachStepIsLookedAt) {
  NEEDS_DEVICE();
  Model model = random_model(Format::kBF16, DType::kBF16, false);
  LocalEngine engine(model, options_of({.cuda = 0}));
  const LateDevice lag(true);
  Request request;
  request.prompt = some_tokens(5, 1);
  request.max_tokens = 40;
  engine.submit(std::move(request));
  const auto steps_ahead = [&](int steps) {
    const int64_t before = engine.core().stats().ahead;
    for (int i = 0; i < steps; ++i) engine.step();
    return engine.core().stats().ahead - before;
  };
  EXPECT_EQ(steps_ahead(4), 4);
  engine.device().profile(true);
  EXPECT_EQ(steps_ahead(3), 0);
  engine.device().profile(false);
  EXPECT_EQ(steps_ahead(3), 3);
  int seen = 0;
  engine.device().on_body = [&](const Batch& batch, const StepOutputs&) { seen += batch.n_rows; };
  EXPECT_EQ(steps_ahead(3), 0);
  EXPECT_EQ(seen, 3);
  engine.device().on_body = nullptr;
  EXPECT_EQ(steps_ahead(3), 3);
}

// Whoever is called between two steps finds the model at rest, and the requests go on afterwards.
TEST(CudaAhead, ACallFindsTheModelAtRest) {
  NEEDS_DEVICE();
  Model model = random_model(Format::kF32, DType::kF32, false);
  Engine engine(model, options_of({.cuda = 0}));
  Request request;
  request.prompt = some_tokens(5, 1);
  request.max_tokens = 25;
  const Submission answer = engine.submit(request), gone = engine.submit(request);
  ASSERT_NE(answer.stream, nullptr);
  ASSERT_NE(gone.stream, nullptr);
  for (int i = 0; i < 3; ++i) gone.stream->next();
  engine.call([](LocalEngine& local) {
    EXPECT_GT(local.core().stats().ahead, 0);
    EXPECT_FALSE(local.core().flying());
  });
  engine.cancel(gone.id);
  int tokens = 0;
  while (const std::optional<Event> event = answer.stream->next()) tokens += event->sample.token >= 0;
  EXPECT_EQ(tokens, 25);
  EXPECT_TRUE(engine.drain(std::chrono::seconds(120)));
  engine.call([](LocalEngine& local) { EXPECT_TRUE(local.idle()); });
}

}  // namespace
}  // namespace ingot
