#include "engine/core.h"

#include <algorithm>
#include <chrono>

#include "engine/fill.h"

namespace ingot {
namespace {

// Rows of prompts that go into a step even where the gap between tokens is over its target already.
constexpr int kLeastPromptRows = 16;
// Of a prompt's part where the model has stages: below this, products of few rows cost more than waiting stages.
constexpr int kLeastStageRows = 64;

SchedulerLimits scheduler_limits(const EngineConfig& config, const CoreOptions& o) {
  int chunk = config.chunk_rows ? std::min(config.chunk_rows, config.step_rows) : config.step_rows;
  // A prompt keeps all stages busy once it has several parts: with two for each, one part in five is waited for.
  if (o.stages > 1) chunk = std::max(std::min(chunk, kLeastStageRows), chunk / (2 * o.stages));
  return {.rows = config.step_rows,
          .seqs = config.max_seqs,
          .chunk = chunk,
          .context = o.context,
          .draft = config.max_draft,
          .mask_words = mask_words(o.vocab),
          .stages = o.stages,
          .has_state = o.has_state,
          .head_rows = o.head_rows};
}

std::unique_ptr<PrefixCache> prefix_cache(KvPages& pages, const EngineConfig& config, const CoreOptions& o) {
  if (!config.prefix_cache) return nullptr;
  return std::make_unique<PrefixCache>(pages, PrefixCacheOptions{.key = o.hash_key,
                                                                 .hash_bits = o.hash_bits,
                                                                 .has_state = o.has_state,
                                                                 .first_snapshot = config.max_seqs,
                                                                 .n_snapshots = o.snapshots});
}

CoreOptions with_clock(CoreOptions o) {
  if (!o.now_ns) {
    o.now_ns = [] {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
    };
  }
  return o;
}

}  // namespace

EngineCore::EngineCore(StepModel& model, const EngineConfig& config, const CoreOptions& options, int flights)
    : model_(model),
      config_(config),
      options_(with_clock(options)),
      limits_(config.limits(options.context, options.logit_rows)),
      pages_(options.groups, config.page_rows),
      prefix_(prefix_cache(pages_, config, options)),
      slots_(0, config.max_seqs),
      pace_(config.gap_ms / 1e3, kLeastPromptRows, config.step_rows),
      scheduler_(scheduler_limits(config, options), pages_, slots_, prefix_.get(), pace_),
      admission_(config.max_waiting, config.ttft_target_ms / 1e3),
      flights_(flights, limits_, pages_.n_groups(), config.max_draft),
      meter_(options_.now_ns) {
  // Nothing that ends a seq may fail for want of memory.
  events_.reserve(most_events());
  ended_.reserve(static_cast<size_t>(config.max_seqs));
}

EngineCore::~EngineCore() {
  flights_.each_in_flight([&](const Flight&) { model_.wait(); });
  while (!seqs_.empty()) erase(*seqs_.begin()->second);
  flights_.each([&](Flight& flight) { free_gone(flight); });
  // What constraints refer to may go after the engine.
  for (const auto& [task, tenant] : left_) {
    while (task->under_way()) options_.masks->wait();
  }
}

std::span<Event> EngineCore::step() {
  meter_.begin(flying());
  take();
  if (!flying() && !plan()) return events_;
  Flight& flight = flights_.front();
  const bool launched = flying() || launch(flight);
  if (launched) prepare();
  const std::string failed = launched ? model_.wait() : "out of memory";
  meter_.ended(flight);
  if (failed.empty()) {
    collect(flight);
  } else {
    fail(flight);
  }
  meter_.done(flying());
  return events_;
}

// Those whose time has passed go before anything is planned.
void EngineCore::take() {
  events_.clear();
  expire();
}

// Completes what was prepared while the step before ran: those who came since, those whose next rows depended on it,
// and the constraints of those who are sampled. False where nobody has anything to compute.
bool EngineCore::plan() {
  Plan& plan = flights_.front().plan;
  plan.preempted = false;  // those that ended since may have left room
  try {
    propose();
    scheduler_.extend(plan);
  } catch (const std::bad_alloc&) {
    // What is planned can run; what is not is tried again.
  }
  for (const Plan::Item& item : plan.items) {
    guard(*item.seq, [&] { fill_mask(item, options_.vocab); });
  }
  ask_masks(flights_.front(), 0);
  sweep();
  return !plan.items.empty();
}

// Guesses of the seqs whose last token is known now; those whose masks were put off keep theirs.
void EngineCore::propose() {
  int room = room_for_guesses();
  for (Sequence* seq : scheduler_.running()) {
    if (!seq->drafts() || seq->state() == SeqState::kPlanned || !seq->decoding()) continue;
    if (seq->masking && seq->masking->asked(seq->n_made())) continue;
    const int most = std::min({config_.max_draft, seq->longest(limits_.context) - seq->n_tokens() - 1, room});
    guard(*seq, [&] {
      seq->draft.clear();
      if (most > 0 && seq->request->drafter) {
        seq->request->drafter->propose(seq->tokens, most, seq->draft);
      } else if (most > 0) {
        paid_by(*seq, [&] { seq->masking->constraint().propose(most, seq->draft); });
      }
      const auto bad = std::ranges::find_if(seq->draft, [&](int32_t t) { return t < 0 || t >= options_.vocab; });
      seq->draft.erase(bad, seq->draft.end());
      if (static_cast<int>(seq->draft.size()) > most) seq->draft.resize(static_cast<size_t>(std::max(0, most)));
    });
    room -= static_cast<int>(seq->draft.size());
  }
  sweep();
}

// False where memory ran out before the model was asked. REQUIRES: it is the next flight.
bool EngineCore::launch(Flight& flight) {
  Plan& plan = flight.plan;
  flight.launched_ns = meter_.now();
  try {
    if (plan.changed) fill_rows(plan, limits_.page_rows, flight.work);
    fill_tokens(plan, options_.vocab, flight.work);
  } catch (const std::bad_alloc&) {
    return false;
  }
  flight.work.undrawn = !has_masks(plan);
  flight.idled = false;
  if (!flight.work.undrawn) hand_masks(flight);
  flights_.launched();
  scheduler_.launched(plan);
  const int64_t now = meter_.now();
  for (Plan::Item& item : plan.items) {
    Sequence& seq = *item.seq;
    if (seq.began_ns == 0) seq.began_ns = now;
    seq.kv_len += item.rows;
    if (item.samples > 0) {
      ++seq.awaited;
      seq.result_step = flight.number;
    }
    item.first_guess = static_cast<int>(plan.drafts.size());
    item.guesses = static_cast<int>(seq.draft.size());
    seq.guessing = item.guesses > 0;
    plan.drafts.insert(plan.drafts.end(), seq.draft.begin(), seq.draft.end());
    seq.draft.clear();
    stats_.drafted += item.guesses;
  }
  stats_.rows += plan.rows;
  model_.launch(flight.work);
  return true;
}

EngineStats EngineCore::stats() const {
  EngineStats stats = stats_;
  meter_.tell(stats);
  stats.preempted = scheduler_.n_preempted();
  stats.taken = scheduler_.n_taken();
  stats.evicted = pages_.n_evicted();
  stats.running = scheduler_.n_running();
  stats.waiting = static_cast<int>(seqs_.size()) - stats.running;
  for (int g = 0; g < pages_.n_groups(); ++g) {
    stats.pages += pages_.total_pages(g);
    stats.free_pages += pages_.free_pages(g);
    stats.cached_pages += pages_.cached_pages(g);
  }
  return stats;
}

}  // namespace ingot
