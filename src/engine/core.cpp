#include "engine/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "engine/fill.h"
#include "engine/sampler.h"

namespace ingot {
namespace {

// Rows of prompts that go into a step even where the gap between tokens is over its target already.
constexpr int kLeastPromptRows = 16;

SchedulerLimits scheduler_limits(const EngineConfig& config, const CoreOptions& o) {
  const int chunk = config.chunk_rows ? std::min(config.chunk_rows, config.step_rows) : config.step_rows;
  return {.rows = config.step_rows,
          .seqs = config.max_seqs,
          .chunk = chunk,
          .context = o.context,
          .draft = config.max_draft,
          .has_state = o.has_state};
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

EngineCore::EngineCore(StepModel& model, const EngineConfig& config, const CoreOptions& options)
    : model_(model),
      config_(config),
      options_(with_clock(options)),
      limits_(config.limits(options.context, options.logit_rows)),
      pages_(options.groups, config.page_rows),
      prefix_(prefix_cache(pages_, config, options)),
      slots_(0, config.max_seqs),
      pace_(config.gap_ms / 1e3, kLeastPromptRows, config.step_rows),
      scheduler_(scheduler_limits(config, options), pages_, slots_, prefix_.get(), pace_) {
  const auto seqs = static_cast<size_t>(config.max_seqs);
  for (StepWork& work : works_) work.batch = Batch(limits_, pages_.n_groups());
  for (Plan& plan : plans_) plan.items.reserve(seqs);
  // Nothing that ends a seq may fail for want of memory.
  events_.reserve(seqs * static_cast<size_t>(3 + config.max_draft));
  ended_.reserve(seqs);
}

EngineCore::~EngineCore() {
  if (flying()) model_.wait();
  while (!seqs_.empty()) erase(*seqs_.begin()->second, plan());
}

std::span<Event> EngineCore::step() {
  const int64_t begun = options_.now_ns();
  events_.clear();
  expire();
  const bool flew = flying();
  if (!flew) {
    make_plan();
    if (plan().items.empty()) return events_;
  }
  std::string failed = "out of memory";
  if (flew || launch(current_)) {
    prepare_next();
    launch_next();
    failed = model_.wait();
  }
  // One that was launched ahead began when the one in front had ended.
  const int64_t began = std::max(plan().launched_ns, ended_ns_);
  ended_ns_ = options_.now_ns();
  const double seconds = 1e-9 * static_cast<double>(ended_ns_ - began);
  last_step_ = {.seconds = seconds,
                .rows = plan().rows,
                .prompt_rows = plan().prompt_rows,
                .seqs = static_cast<int>(plan().items.size())};
  if (failed.empty()) {
    pace_.measured(plan().rows - plan().prompt_rows, plan().prompt_rows, seconds);
    collect();
  } else {
    fail();
  }
  ++stats_.steps;
  plan().clear();
  current_ = 1 - current_;
  stats_.step_seconds = seconds;
  stats_.busy_seconds += seconds;
  const int64_t own = (flew ? 0 : began - begun) + (flying() ? 0 : options_.now_ns() - ended_ns_);
  stats_.own_seconds = 1e-9 * static_cast<double>(own);
  return events_;
}

// Completes what was prepared while the step before ran: those who came since, those whose next rows depended on it,
// and the constraints of those who are sampled.
void EngineCore::make_plan() {
  plan().preempted = false;  // those that ended since may have left room
  try {
    propose();
    scheduler_.extend(plan());
  } catch (const std::bad_alloc&) {
    // What is planned can run; what is not is tried again.
  }
  for (const Plan::Item& item : plan().items) {
    guard(*item.seq, [&] { fill_masks(*item.seq, options_.vocab); });
  }
  sweep(plan());
}

// Guesses of the seqs whose last token is known now.
void EngineCore::propose() {
  for (Sequence* seq : scheduler_.running()) {
    if (!seq->request->drafter || seq->planned || !seq->decoding()) continue;
    const int most = std::min(config_.max_draft, seq->longest(limits_.context) - seq->n_tokens() - 1);
    guard(*seq, [&] {
      seq->draft.clear();
      if (most > 0) seq->request->drafter->propose(seq->tokens, most, seq->draft);
      const auto bad = std::ranges::find_if(seq->draft, [&](int32_t t) { return t < 0 || t >= options_.vocab; });
      seq->draft.erase(bad, seq->draft.end());
      if (static_cast<int>(seq->draft.size()) > most) seq->draft.resize(static_cast<size_t>(std::max(0, most)));
    });
  }
  sweep(plan());
}

// False where memory ran out before the model was asked.
bool EngineCore::launch(size_t which) {
  Plan& plan = plans_[which];
  StepWork& work = works_[which];
  plan.launched_ns = options_.now_ns();
  try {
    if (plan.changed) fill_rows(plan, limits_.page_rows, work);
    fill_tokens(plan, options_.vocab, work);
  } catch (const std::bad_alloc&) {
    return false;
  }
  plan.launched = true;
  const int64_t now = options_.now_ns();
  for (Plan::Item& item : plan.items) {
    Sequence& seq = *item.seq;
    if (seq.began_ns == 0) seq.began_ns = now;
    seq.kv_len += item.rows;
    seq.awaited += item.samples > 0 ? 1 : 0;
    seq.planned = false;
    scheduler_.waiting().served(seq.request->tenant, item.rows);
    stats_.drafted += static_cast<int64_t>(seq.draft.size());
    item.draft = std::exchange(seq.draft, {});
  }
  stats_.rows += plan.rows;
  model_.launch(work);
  return true;
}

// While the step runs: the events of the one before are handed out, and the next is planned as if every token were
// there already and ended nothing.
void EngineCore::prepare_next() {
  if (while_running) while_running();
  try {
    scheduler_.extend(next_plan());
    fill_rows(next_plan(), limits_.page_rows, works_[1 - current_]);
    next_plan().changed = false;
  } catch (const std::bad_alloc&) {
    next_plan().changed = true;
  }
}

void EngineCore::collect() {
  if (damaged && damaged()) {
    for (const Plan::Item& item : plan().items) {
      if (item.seq) end(*item.seq, FinishReason::kDamaged);
    }
    sweep(next_plan());
    return;
  }
  size_t result = 0;
  for (const Plan::Item& item : plan().items) {
    stats_.orphans += item.seq == nullptr;
    if (item.seq) guard(*item.seq, [&] { collect_item(item, result); });
    result += static_cast<size_t>(item.samples);
  }
  const StepWork& work = works_[current_];
  const auto end_owner = [&](int row) {
    const int s = work.batch.seq[static_cast<size_t>(row)];
    end(*plan().items[static_cast<size_t>(s)].seq, FinishReason::kError);
  };
  for (size_t i = 0; i < work.logits.size(); ++i) {
    if (work.threw[i]) end_owner(work.logits[i].row);
  }
  for (const HiddenRow& row : work.hidden) {
    if (row.threw) end_owner(row.row);
  }
  sweep(next_plan());
}

void EngineCore::collect_item(const Plan::Item& item, size_t first) {
  Sequence& seq = *item.seq;
  seq.awaited -= item.samples > 0 ? 1 : 0;
  int rows = item.begin + item.rows;  // that are in the cache for good: not those of a step that was launched ahead
  seq.reported = std::max(seq.reported, rows);
  int standing = 0;
  for (int i = 0; i < item.samples; ++i) {
    const int32_t token = works_[current_].results[first + static_cast<size_t>(i)].token;
    if (token < 0) {
      // Whatever made the logits no numbers may be in its pages: nobody shall find them again.
      if (prefix_ && seq.running) prefix_->forget(seq.pages);
      return end(seq, FinishReason::kError);
    }
    const bool ends = !take_token(seq, std::move(works_[current_].results[first + static_cast<size_t>(i)]));
    if (ends) break;
    // A row stands as long as the guess that it was computed for came true.
    if (i + 1 >= item.samples || item.draft[static_cast<size_t>(i)] != token) break;
    ++standing;
  }
  stats_.accepted += standing;
  if (!seq.running) return;  // preempted meanwhile: it has the token and nothing in the cache
  if (!item.draft.empty()) {
    const int refused = item.samples - 1 - standing;
    rows -= refused;
    seq.kv_len -= refused;
    pages_.truncate(seq.pages, seq.kv_len);
    if (options_.has_state) {
      next_plan().states.push_back({.kind = StateOp::Kind::kAccept, .to = seq.state_slot, .rows = item.rows - refused});
    }
  }
  settle(seq, rows);
  if (seq.request->max_tokens == 0 && rows == seq.n_tokens()) end(seq, FinishReason::kLength);
}

// Its first `rows` rows are in the cache for good: full pages get addresses, windows move on.
void EngineCore::settle(Sequence& seq, int rows) {
  const int page_rows = pages_.page_rows();
  while (seq.prefix_node >= 0 && (seq.addressed + 1) * page_rows <= rows) {
    const std::span page(seq.tokens.data() + seq.addressed * page_rows, static_cast<size_t>(page_rows));
    seq.prefix_node = prefix_->add(seq.prefix_node, page, seq.pages, seq.addressed);
    ++seq.addressed;
  }
  if (options_.has_state && prefix_) keep_state(seq);
  pages_.slide(seq.pages, rows);
  if (seq.suspect > 0 && rows >= seq.suspect) scheduler_.clear_suspicion(seq);
  if (rows >= seq.n_prompt()) leave_choices(seq);
}

void EngineCore::keep_state(Sequence& seq) {
  if (seq.prefix_node < 0 || seq.kv_len == 0 || seq.kv_len != seq.addressed * pages_.page_rows()) return;
  next_plan().states.reserve(next_plan().states.size() + 1);
  const int slot = prefix_->snapshot(seq.prefix_node);
  if (slot >= 0) next_plan().states.push_back({.kind = StateOp::Kind::kCopy, .from = seq.state_slot, .to = slot});
}

// The prompt is in the cache: the other choices may share it.
void EngineCore::leave_choices(Sequence& seq) {
  for (Sequence* other : seq.followers) {
    if (other->held_back) scheduler_.release(*other);
  }
}

// Appends the token, and says whether the seq goes on.
bool EngineCore::take_token(Sequence& seq, SampleResult result) {
  const Request& request = *seq.request;
  const int32_t token = result.token;
  FinishReason finish = FinishReason::kNone;
  seq.tokens.push_back(token);
  if (request.constraint) request.constraint->advance(token);
  ++stats_.tokens;
  if (std::ranges::find(request.end_tokens, token) != request.end_tokens.end() ||
      (request.constraint && request.constraint->complete())) {
    finish = FinishReason::kStop;
  } else if (seq.n_tokens() >= seq.longest(limits_.context)) {
    finish = FinishReason::kLength;
  }
  if (seq.n_made() == 1) {
    stats_.prompt_tokens += seq.n_prompt();
    stats_.reused_tokens += seq.reused;
  }
  stats_.finished += finish != FinishReason::kNone;
  tell(seq, std::move(result), finish);
  return finish == FinishReason::kNone;
}

}  // namespace ingot
