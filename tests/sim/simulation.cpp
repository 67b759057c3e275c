#include "sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>

#include "sim/scripted_model.h"
#include "sim/scripted_workers.h"

namespace ingot::sim {
namespace {

constexpr uint64_t kNanSeed = 1u << 20;  // a request whose logits are not numbers from its 3rd token on
constexpr int kCalm = 400;  // steps without a transient fault after a failure: no seq fails twice without fault
constexpr uint64_t kPoisonSeed =
    1u << 21;  // a request that makes every step fail that has its 5th token or a later one

bool row_is_nan(const SampleRow& row) {
  return (row.params->seed & kNanSeed) != 0 && row.position >= static_cast<int>(row.prompt_tokens) + 2;
}

// Tokens whose sum with the last one is a multiple of 3 may not come; where it forces, four tokens must come after each
// multiple of 7, and it proposes them.
class EveryThird : public TokenConstraint {
 public:
  EveryThird(int vocab, bool throws, bool forces) : vocab_(vocab), throws_(throws), forces_(forces) {}
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<EveryThird>(*this); }
  void mask(std::span<uint32_t> words) override {
    if (throws_ && history_.size() >= 4) throw std::runtime_error("constraint");
    if (const int32_t only = forced(); only >= 0) {
      std::ranges::fill(words, 0);
      words[static_cast<size_t>(only) / 32] |= 1u << (only % 32);
      return;
    }
    const int last = history_.empty() ? 1 : history_.back();
    for (int t = 0; t < vocab_; ++t) {
      if ((t + last) % 3 == 0) words[static_cast<size_t>(t) / 32] &= ~(1u << (t % 32));
    }
  }
  void advance(int32_t token) override { history_.push_back(token); }
  void rollback(int n) override { history_.resize(history_.size() - static_cast<size_t>(n)); }
  bool proposes() const override { return forces_; }
  void propose(int max, std::vector<int32_t>& draft) override {
    const size_t before = history_.size();
    for (int32_t next = forced(); next >= 0 && static_cast<int>(draft.size()) < max; next = forced()) {
      draft.push_back(next);
      history_.push_back(next);
    }
    history_.resize(before);
  }

 private:
  // -1: there is a choice.
  int32_t forced() const {
    for (size_t k = 1; forces_ && k <= std::min<size_t>(4, history_.size()); ++k) {
      const int32_t token = history_[history_.size() - k];
      if (token % 7 == 0) return static_cast<int32_t>(token + static_cast<int32_t>(k)) % vocab_;
    }
    return -1;
  }

  const int vocab_;
  const bool throws_, forces_;
  std::vector<int32_t> history_;
};

// Knows the answer, and now and then guesses wrong.
class Guesser : public Drafter {
 public:
  Guesser(size_t prompt, std::vector<int32_t> answer, uint64_t seed)
      : prompt_(prompt), answer_(std::move(answer)), random_(seed) {}
  void propose(std::span<const int32_t> tokens, int max, std::vector<int32_t>& draft) override {
    for (size_t i = tokens.size() - prompt_; i < answer_.size() && static_cast<int>(draft.size()) < max; ++i) {
      draft.push_back(random_() % 4 == 0 ? 0 : answer_[i]);
    }
  }

 private:
  const size_t prompt_;
  const std::vector<int32_t> answer_;
  std::mt19937_64 random_;
};

struct Client {
  std::vector<std::vector<int32_t>> expected;  // of each choice
  std::vector<size_t> got;
  std::vector<char> open;
  bool may_fail = false;  // NaN, poison, a throwing constraint
  bool may_time_out = false;
  bool late = false;  // it came after ranks had gone
};

class Run {
 public:
  // Requests come until step `arrivals_until`.
  Run(uint64_t seed, int arrivals_until, Outcome& outcome)
      : random_(seed), arrivals_until_(arrivals_until), outcome_(outcome) {
    setup();
    model_ = std::make_unique<ScriptedModel>(shape_);
    model_->ahead = mix(seed) % 2 == 0;
    model_->flights = 2 + mix(seed, 1) % 3;
    model_->is_nan = row_is_nan;
    model_->on_step = [this](const StepWork& work) { on_step(work); };
    // Masks are made by the core's own thread, or whenever it happens.
    model_->body_ends = [this] { return mask_random_() % 3 == 0; };
    workers_.at_once = [this] { return mask_random_() % 3 == 0; };
    workers_.which = [this](size_t n) { return n == 0 ? 0 : mask_random_() % (n + 1); };
    workers_.seconds = [this] { return 1e-6 * static_cast<double>(mask_random_() % 3000); };
    mask_random_.seed(mix(seed, 2));
    if (mix(seed, 3) % 3 != 0) options_.masks = &workers_;
    model_->on_launch = [this] { lose_at(Moment::kLaunch); };
    rank_random_.seed(mix(seed, 5));
    if (mix(seed, 6) % 3 == 0) {
      lost_step_ = static_cast<int>(rank_random_() % static_cast<uint64_t>(arrivals_until));
      moment_ = static_cast<Moment>(rank_random_() % 3);
    }
    if (model_->ahead && mix(seed, 4) % 3 == 0) options_.stages = static_cast<int>(model_->flights);
    core_ = std::make_unique<EngineCore>(*model_, config_, options_, static_cast<int>(model_->flights));
  }

  void step(int number) {
    step_ = number;
    const bool draining = number >= arrivals_until_;
    if (!draining && pick(100) < arrival_percent_) submit();
    if (pick(100) < 4) cancel();
    fail_soon();
    const int64_t launched = model_->launched;
    lose_at(Moment::kBetween);
    const bool flew = core_->flying(), nobody_answers = none_ends_;
    const std::span<Event> events = core_->step();
    const bool no_memory = allocation_failed();
    fail_allocation(-1);
    for (const Event& event : events) {
      require(!nobody_answers || event.sample.token < 0, "a token of ranks that have gone");
      take(event);
    }
    none_ends_ = model_->dead();
    const Sequence* const turn = core_->scheduler().tenants().turn_of();
    if (turn) count(turn->running() ? "read in its turn" : "waited in its turn");
    const bool idle = events.empty() && model_->launched == launched && !flew && !no_memory;
    stuck_ = idle && !core_->idle() ? stuck_ + 1 : 0;
    require(stuck_ < 3, "nothing runs and nothing ends");
    check_pages();
  }

  bool idle() const { return core_->idle(); }

  void finish() {
    require(core_->idle(), "requests are left at the end");
    for (const auto& [id, client] : clients_) {
      require(std::ranges::none_of(client.open, [](char c) { return c != 0; }),
              fmt::format("request {} never ended", id));
    }
    for (int g = 0; g < core_->pages().n_groups(); ++g) {
      require(core_->pages().available(g) == core_->pages().total_pages(g), "pages are still held");
    }
    const EngineStats stats = core_->stats();
    count("preempted", stats.preempted);
    count("taken for another's share", stats.taken);
    count("evicted", stats.evicted);
    count("reused", stats.reused_tokens);
    count("copied on write", model_->copies);
    count("draft accepted", stats.accepted);
    count("draft refused", stats.drafted - stats.accepted);
    count("mask put off", stats.put_off);
    count("drawn later", model_->drawn_later);
    count("guessed ahead", model_->guessed_ahead);
    count("step failed", stats.failed_steps);
    count("ran ahead", stats.ahead);
    count("three in flight", model_->most_in_flight > 2);
    count("rank lost", model_->lost());
    count("orphaned", stats.orphans);
    count("expired", stats.expired);
    count("busy", stats.busy);
    count("refused", stats.refused);
  }

  const std::string& violation() const { return outcome_.violation; }

 private:
  // Where a rank is lost: between two calls of the core, when a step is launched, or while one is waited for.
  enum class Moment : uint8_t { kBetween, kLaunch, kWait };

  uint64_t pick(uint64_t n) { return random_() % n; }
  int pick(int low, int high) { return low + static_cast<int>(pick(static_cast<uint64_t>(high - low + 1))); }
  void count(const std::string& what, int64_t n = 1) { outcome_.sometimes[what] += n; }
  void require(bool holds, const std::string& what) {
    if (!holds && outcome_.violation.empty()) outcome_.violation = fmt::format("step {}: {}", step_, what);
  }

  void setup() {
    shape_.page_rows = pick(2, 6);
    const int context = pick(24, 90);
    const int pages = context / shape_.page_rows + 2 + pick(0, 30);
    shape_.groups = {{.pages = pages, .window = 0}};
    const int more = pick(0, 3);
    if (more == 1) shape_.groups.push_back({.pages = pages, .window = pick(2, 20)});
    if (more == 2) shape_.groups[0].window = pick(2, 20);
    for (PageGroup& group : shape_.groups) {
      // A window may have as few as one seq needs.
      if (group.window > 0 && pick(2) == 0) group.pages = (group.window + shape_.page_rows - 1) / shape_.page_rows + 2;
    }
    shape_.has_state = more == 3;
    config_.step_rows = pick(4, 40);
    config_.max_seqs = pick(1, 6);
    config_.page_rows = shape_.page_rows;
    options_.logit_rows = 4;
    options_.context = context;
    options_.vocab = shape_.vocab;
    options_.groups = shape_.groups;
    config_.chunk_rows = pick(0, 12);
    config_.gap_ms = pick(3) == 0 ? 20 : 0;
    config_.max_waiting = pick(4, 30);
    config_.max_draft = pick(0, 4);
    config_.prefix_cache = pick(5) != 0;
    options_.hash_key = random_();
    options_.hash_bits = pick(3) == 0 ? 2 : 64;
    options_.has_state = shape_.has_state;
    options_.snapshots = shape_.has_state ? pick(0, 5) : 0;
    shape_.slots = config_.max_seqs + options_.snapshots;
    options_.now_ns = [this] { return now_ns_; };
    arrival_percent_ = static_cast<uint64_t>(pick(5, 60));
    memory_faults_ = pick(4) == 0;
    step_faults_ = pick(3) == 0;
    for (int i = 0; i < 4; ++i) texts_.push_back(some_tokens(context));
  }

  std::vector<int32_t> some_tokens(int n) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < n; ++i) tokens.push_back(pick(0, shape_.vocab - 1));
    return tokens;
  }

  Request make_request() {
    Request r;
    const int context = options_.context;
    const std::vector<int32_t>& text = texts_[pick(texts_.size())];
    const int shared = pick(0, context - 2), own = pick(0, 6);
    r.prompt.assign(text.begin(), text.begin() + shared);
    for (const int32_t token : some_tokens(own)) r.prompt.push_back(token);
    if (pick(50) != 0 && r.prompt.size() >= static_cast<size_t>(context))
      r.prompt.resize(static_cast<size_t>(context) - 1);
    r.max_tokens = pick(10) == 0 ? -1 : pick(0, 20);
    r.sampling.seed = pick(1000);
    if (r.sampling.seed % 7 == 0) r.sampling.repetition_penalty = 1.1f;
    if (pick(3) == 0) r.end_tokens = {pick(0, shape_.vocab - 1), pick(0, shape_.vocab - 1)};
    if (pick(6) == 0) r.min_tokens = pick(1, 8);
    if (pick(6) == 0) r.choices = pick(2, 4);
    r.tenant = pick(2) == 0 ? "a" : fmt::format("b{}", pick(3));
    r.weight = r.tenant == "a" ? 1 : weights_[pick(4)];
    r.priority = pick(4) == 0 ? pick(-2, 2) : r.tenant == "b0" ? 100 : 0;
    if (pick(8) == 0) r.queue_seconds = 0.05;
    if (pick(12) == 0) r.deadline_seconds = 0.02 * pick(1, 10);
    r.reuse_prefix = pick(8) != 0;
    if (pick(25) == 0) r.sampling.seed |= kNanSeed;
    if (step_faults_ && pick(40) == 0) r.sampling.seed |= kPoisonSeed;
    return r;
  }

  void submit() {
    Request r = make_request();
    Client client;
    client.late = none_ends_;
    client.may_fail = memory_faults_ || (r.sampling.seed & (kNanSeed | kPoisonSeed)) != 0;
    client.may_time_out = r.deadline_seconds > 0;
    const bool constrained = pick(4) == 0, throws = constrained && pick(5) == 0, forces = pick(2) == 0;
    for (int c = 0; c < r.choices; ++c) {
      EveryThird plain(shape_.vocab, false, forces);
      client.expected.push_back(r.max_tokens == 0 ? std::vector<int32_t>{}
                                                  : expected_tokens(shape_, r, c, options_.context, nan_of(r),
                                                                    constrained ? &plain : nullptr));
      client.open.push_back(1);
    }
    client.got.resize(static_cast<size_t>(r.choices));
    if (constrained) r.constraint = std::make_shared<EveryThird>(shape_.vocab, throws, forces);
    client.may_fail |= throws;
    if (pick(4) == 0) r.drafter = std::make_shared<Guesser>(r.prompt.size(), client.expected[0], random_());
    if (memory_faults_ && pick(5) == 0) fail_allocation(pick(0, 30));
    Submitted submitted;
    try {
      submitted = core_->submit(std::move(r));
    } catch (const std::bad_alloc&) {
      count("no memory to submit");
    }
    fail_allocation(-1);
    if (submitted.id >= 0) clients_.emplace(submitted.id, std::move(client));
  }

  // The sampler of one seq knows how long its prompt is; the plain model is told.
  static std::function<bool(const SampleRow&)> nan_of(const Request& r) {
    return [prompt = static_cast<int64_t>(r.prompt.size())](SampleRow row) {
      row.prompt_tokens = prompt;
      return row_is_nan(row);
    };
  }

  void cancel() {
    std::vector<SeqId> live;
    for (const auto& [id, client] : clients_) {
      if (std::ranges::any_of(client.open, [](char c) { return c != 0; })) live.push_back(id);
    }
    if (live.empty()) return;
    const SeqId id = live[pick(live.size())];
    Client& client = clients_.at(id);
    require(core_->cancel(id), "a live request could not be cancelled");
    count(client.got[0] > 0 ? "cancelled while decoding" : "cancelled before its first token");
    clients_.erase(id);
  }

  // With one of several ranks or stages: each step in flight is in another stage, the oldest in the last, and those
  // that have passed the rank may end well.
  void lose_at(Moment moment) {
    if (moment != moment_ || step_ < lost_step_ || lost_step_ < 0 || model_->lost()) return;
    fail_allocation(-1);  // what is counted here takes memory of its own
    const size_t flying = model_->in_flight(), passed = rank_random_() % (flying + 1);
    model_->lose(passed);
    count("rank lost behind a step", passed > 0);
    count("rank lost before several steps", flying - passed > 1);
  }

  void fail_soon() {
    if (memory_faults_ && pick(10) == 0) fail_allocation(pick(0, 20));
  }

  void on_step(const StepWork& work) {
    fail_allocation(-1);
    lose_at(Moment::kWait);
    now_ns_ += 1'000'000 + 200'000 * work.batch.n_rows + (pick(50) == 0 ? 500'000'000 : 0);
    require(work.batch.n_rows > 0 && work.batch.n_rows <= config_.step_rows, "the budget of rows");
    require(work.batch.n_seqs <= config_.max_seqs, "the limit of seqs");
    for (const SampleRow& row : work.samples) {
      const bool poison = (row.params->seed & kPoisonSeed) != 0 && row.position >= row.prompt_tokens + 4;
      if (!poison) continue;
      calm_ = kCalm;
      throw std::runtime_error("poison");
    }
    if (calm_ > 0) --calm_;
    if (step_faults_ && calm_ == 0 && pick(100) == 0) {
      calm_ = kCalm;
      count("step threw");
      throw std::runtime_error("transient");
    }
  }

  void take(const Event& event) {
    outcome_.trace =
        mix(outcome_.trace ^ static_cast<uint64_t>(event.request), static_cast<uint64_t>(event.sample.token + 2));
    const auto it = clients_.find(event.request);
    require(it != clients_.end(), fmt::format("an event of request {}, which nobody waits for", event.request));
    if (it == clients_.end()) return;
    Client& client = it->second;
    const auto c = static_cast<size_t>(event.choice);
    require(client.open[c] != 0, fmt::format("an event after the end of request {}", event.request));
    if (event.sample.token >= 0) {
      const bool right =
          client.got[c] < client.expected[c].size() && client.expected[c][client.got[c]] == event.sample.token;
      require(right, fmt::format("request {} choice {}: token {} is not what it makes alone", event.request, c,
                                 client.got[c]));
      ++client.got[c];
      if (event.reused > 0 && c > 0) count("choice shared the prompt");
    }
    if (event.finish == FinishReason::kNone) return;
    client.open[c] = 0;
    if (event.finish == FinishReason::kError) {
      require(client.may_fail || model_->lost(), fmt::format("request {} failed for another's sake", event.request));
      count(model_->lost() ? "ended by a lost rank" : "failed alone");
    } else if (event.finish == FinishReason::kDeadline) {
      require(client.got[c] == 0, "a deadline after it had begun");
    } else if (event.finish == FinishReason::kTimeout) {
      require(client.may_time_out, "a deadline that nobody set");
      count(client.got[c] > 0 ? "timed out while decoding" : "timed out before its first token");
    } else {
      require(client.got[c] == client.expected[c].size(), fmt::format("request {} ended early", event.request));
      require(!client.late, fmt::format("request {} was answered by ranks that have gone", event.request));
      count("answered though a rank was lost", model_->lost());
    }
  }

  void check_pages() {
    const KvPages& pages = core_->pages();
    for (int g = 0; g < pages.n_groups(); ++g) {
      std::vector<int> refs(static_cast<size_t>(pages.total_pages(g)));
      std::vector<const std::string*> tenant(refs.size(), nullptr);
      for (const Sequence* seq : core_->scheduler().running()) {
        if (seq->pages.groups.empty()) continue;
        for (const PageId page : seq->pages.groups[static_cast<size_t>(g)]) {
          if (page == kNoPage) continue;
          ++refs[static_cast<size_t>(page)];
          const std::string*& owner = tenant[static_cast<size_t>(page)];
          require(!owner || *owner == seq->request->tenant, "tenants share a page");
          owner = &seq->request->tenant;
        }
      }
      int held = 0;
      for (int p = 0; p < pages.total_pages(g); ++p) {
        held += refs[static_cast<size_t>(p)] > 0;
        require(pages.refs(g, p) == refs[static_cast<size_t>(p)],
                fmt::format("page {} of group {} has {} refs and {} holders", p, g, pages.refs(g, p),
                            refs[static_cast<size_t>(p)]));
      }
      require(held + pages.available(g) == pages.total_pages(g), "pages got lost");
    }
  }

  std::mt19937_64 random_;
  const int arrivals_until_;
  Outcome& outcome_;
  Shape shape_;
  EngineConfig config_;
  CoreOptions options_;
  std::vector<std::vector<int32_t>> texts_;
  const std::vector<double> weights_ = {1, 0.1, 3, 1000};
  std::mt19937_64 mask_random_;
  ScriptedWorkers workers_;
  std::unique_ptr<ScriptedModel> model_;
  std::unique_ptr<EngineCore> core_;
  std::map<SeqId, Client> clients_;
  int64_t now_ns_ = 1;
  uint64_t arrival_percent_ = 0;
  bool memory_faults_ = false, step_faults_ = false;
  std::mt19937_64 rank_random_;
  int lost_step_ = -1;  // of the simulation; -1: no rank is lost
  Moment moment_ = Moment::kBetween;
  bool none_ends_ = false;  // no step ends well any more
  int calm_ = 0;
  int stuck_ = 0;
  int step_ = 0;
};

}  // namespace

// Of the last tenth of the steps none brings a new request.
Outcome simulate(uint64_t seed, int steps) {
  Outcome outcome;
  Run run(mix(seed, 99), steps - steps / 10, outcome);
  for (int i = 0; i < steps && outcome.violation.empty(); ++i) run.step(i);
  for (int i = 0; i < 20 * steps && outcome.violation.empty() && !run.idle(); ++i) run.step(steps + i);
  if (outcome.violation.empty()) run.finish();
  return outcome;
}

const std::vector<std::string>& required_branches() {
  static const std::vector<std::string> names = {"preempted",
                                                 "taken for another's share",
                                                 "waited in its turn",
                                                 "read in its turn",
                                                 "timed out while decoding",
                                                 "timed out before its first token",
                                                 "evicted",
                                                 "reused",
                                                 "copied on write",
                                                 "draft accepted",
                                                 "draft refused",
                                                 "mask put off",
                                                 "drawn later",
                                                 "guessed ahead",
                                                 "step failed",
                                                 "ran ahead",
                                                 "three in flight",
                                                 "rank lost",
                                                 "rank lost behind a step",
                                                 "rank lost before several steps",
                                                 "ended by a lost rank",
                                                 "answered though a rank was lost",
                                                 "orphaned",
                                                 "expired",
                                                 "busy",
                                                 "refused",
                                                 "step threw",
                                                 "cancelled while decoding",
                                                 "failed alone",
                                                 "no memory to submit",
                                                 "cancelled before its first token",
                                                 "choice shared the prompt"};
  return names;
}

}  // namespace ingot::sim
