#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ingot {

Scheduler::Scheduler(const SchedulerLimits& limits, KvPages& pages, StateSlots& slots, PrefixCache* prefix, Pace& pace)
    : limits_(limits), pages_(pages), slots_(slots), prefix_(prefix), pace_(pace) {
  running_.reserve(static_cast<size_t>(limits.seqs));
  aside_.reserve(static_cast<size_t>(limits.seqs));
  kept_.resize(static_cast<size_t>(pages.n_groups()));
}

void Scheduler::add(Sequence& seq, bool held_back) {
  tenants_.enter(seq);
  if (!held_back) tenants_.add(seq);
  seq.become(held_back ? SeqState::kHeldBack : SeqState::kWaiting);
}

void Scheduler::release(Sequence& seq) {
  CHECK(seq.state() == SeqState::kHeldBack, "seq {} is not held back", seq.id);
  seq.become(SeqState::kWaiting);
  tenants_.add(seq);
}

// Pages, slot and place in the prefix cache.
void Scheduler::give_back(Sequence& seq) {
  pages_.release(seq.pages);
  seq.kv_len = 0;
  seq.addressed = 0;
  seq.draft.clear();
  if (seq.prefix_node >= 0) prefix_->release(seq.prefix_node);
  seq.prefix_node = -1;
  slots_.give(seq.state_slot);
  seq.state_slot = -1;
  std::erase(running_, &seq);
  tenants_.end(seq);
}

void Scheduler::take_out(Sequence& seq, Plan* plan) {
  if (seq.state() != SeqState::kPlanned) return;
  CHECK(plan, "seq {} is planned and there is no plan", seq.id);
  const auto it = std::ranges::find(plan->items, &seq, &Plan::Item::seq);
  CHECK(it != plan->items.end(), "seq {} is in no plan", seq.id);
  plan->rows -= it->rows;
  if (!it->decoding) plan->prompt_rows -= it->rows;
  plan->items.erase(it);
  plan->changed = true;
  seq.become(SeqState::kRunning);
}

void Scheduler::remove(Sequence& seq, Plan* plan) {
  take_out(seq, plan);
  if (seq.running()) {
    give_back(seq);
  } else if (seq.state() != SeqState::kHeldBack) {
    tenants_.remove(seq);
  }
  clear_suspicion(seq);
  tenants_.leave(seq);
  seq.become(SeqState::kGone);
}

void Scheduler::set_back(Sequence& seq) {
  if (is_safe(seq)) {
    ++seq.interrupted;
  } else if (seq.decoding()) {
    seq.interrupted = 0;
  }
  // A prompt is read again at most as often as its length can be halved: in all no more than two times its rows. Once
  // all of it is read it is safe for no more than a page.
  const int page = pages_.page_rows(), left = seq.n_tokens() - seq.kv_len;
  const int further = seq.decoding() ? page : std::max(page, std::min(seq.kv_len, left + page));
  seq.safe_rows = std::max(seq.safe_rows, seq.kv_len + further);
  seq.begun = -1;
  give_back(seq);
  seq.become(SeqState::kPreempted);
  tenants_.add(seq);
  ++n_preempted_;
}

void Scheduler::preempt(Sequence& seq, Plan& plan) {
  take_out(seq, &plan);
  set_back(seq);
  plan.preempted = true;
}

void Scheduler::launched(const Plan& plan) {
  for (const Plan::Item& item : plan.items) item.seq->become(SeqState::kRunning);
  tenants_.launched(plan.rows);
}

void Scheduler::ran(int rows, double seconds, bool idled) {
  const double row = pace_.row_seconds();
  const double took = row > 0 ? std::max<double>(rows, seconds / row) : rows;
  tenants_.ran(took);
  if (!idled) step_rows_ += (took - step_rows_) / 16;
}

void Scheduler::unplan(const Plan& plan) {
  for (const Plan::Item& item : plan.items) {
    if (item.seq && item.seq->state() == SeqState::kPlanned) item.seq->become(SeqState::kRunning);
  }
}

void Scheduler::restart(const Plan& failed) {
  for (const Plan::Item& item : failed.items) {
    if (!item.seq || !item.seq->running()) continue;
    n_suspects_ += item.seq->suspect == 0;
    item.seq->suspect = std::max(item.seq->suspect, item.begin + item.rows);
  }
  while (!running_.empty()) set_back(*running_.back());
}

void Scheduler::clear_suspicion(Sequence& seq) {
  n_suspects_ -= seq.suspect > 0;
  seq.suspect = 0;
}

// The running step makes its last token.
bool Scheduler::will_end(const Sequence& seq) const {
  return seq.awaited > 0 && seq.n_tokens() + seq.awaited >= seq.longest(limits_.context);
}

// Of its next rows, how many could have pages: not those that what is read in its turn has yet to be given.
int Scheduler::rows_that_fit(const Sequence& seq, int rows) {
  const Sequence* turn = tenants_.turn_of();
  if (turn == &seq || !turn || !reads_in_turn(*turn)) return pages_.rows_that_fit(seq.pages, seq.kv_len, rows);
  const int most = std::min(turn->safe_rows, turn->longest(limits_.context));
  for (int g = 0; g < pages_.n_groups(); ++g) {
    kept_[static_cast<size_t>(g)] = std::max(0, pages_.most_pages(g, most) - held_by(*turn, g));
  }
  return pages_.rows_that_fit(seq.pages, seq.kv_len, rows, kept_);
}

// As many of the rows as there are pages for, taken from others where there is none at all.
bool Scheduler::place(Sequence& seq, int rows, Plan& plan) {
  int fit = 0;
  while ((fit = rows_that_fit(seq, rows)) == 0) {
    Sequence* other = gives_page(seq);
    if (!other) return false;
    if (other->tenant == seq.tenant) tenants_.lose(*other);
    preempt(*other, plan);
  }
  const bool grown = pages_.grow(seq.pages, seq.kv_len, seq.kv_len + fit, plan.copies);
  CHECK(grown, "{} rows fit and have no pages", fit);
  charge(seq, seq.kv_len, seq.kv_len + fit);
  get_on(seq, fit);
  const bool decoding = seq.decoding();
  plan.items.push_back({&seq, seq.kv_len, fit, decoding});
  plan.rows += fit;
  plan.prompt_rows += decoding ? 0 : fit;
  plan.changed = true;
  seq.become(SeqState::kPlanned);
  return true;
}

// Everybody's last row has logits: those of a prompt's other rows are paid for.
void Scheduler::charge(Sequence& seq, int begin, int end) {
  tenants_.charge(seq, begin, end);
  if (!seq.request->on_logits) return;
  const int scored = std::min(end, seq.n_prompt() - 1) - std::max({begin, seq.request->logits_from, seq.reported});
  if (scored > 0) charge_work(seq, limits_.head_rows * scored);
}

bool Scheduler::place_decoding(Sequence& seq, Plan& plan) {
  const int rows = std::min(1 + static_cast<int>(seq.draft.size()), limits_.rows - plan.rows);
  if (rows <= 0 || !place(seq, rows, plan)) return false;
  seq.draft.resize(static_cast<size_t>(plan.items.back().rows) - 1);
  return true;
}

// Rows of prompts that the plan has room for: fewer where others wait for their next token meanwhile.
int Scheduler::prompt_room(const Plan& plan) const {
  const bool others_decode = std::ranges::any_of(running_, [](const Sequence* seq) { return seq->decoding(); });
  const int room = limits_.rows - plan.rows - plan.kept;
  return others_decode ? std::min(room, pace_.prompt_rows() - plan.prompt_rows) : room;
}

// At most `most` of its rows.
bool Scheduler::place_prompt(Sequence& seq, int most, Plan& plan) {
  int rows = std::min({seq.pending(), limits_.chunk, prompt_room(plan), most});
  seq.tenant->hungry |= rows < seq.pending();
  if (rows <= 0) return false;
  // Recurrent state is kept at borders of pages: a chunk ends at the last one that it reaches.
  if (limits_.has_state && prefix_) {
    const int border = (seq.kv_len + rows) / pages_.page_rows() * pages_.page_rows();
    if (border > seq.kv_len) rows = border - seq.kv_len;
  }
  if (!place(seq, rows, plan)) return false;
  seq.tenant->grant -= plan.items.back().rows;
  n_read_ += plan.items.back().rows;
  return true;
}

// Its rows and nobody else's. Late in the order or not, it has pages when all the others have none; while its own step
// runs, those that its window is about to leave may be missing.
void Scheduler::place_alone(Sequence& seq, Plan& plan) {
  seq.draft.clear();
  while (!place(seq, std::min({seq.pending(), limits_.rows, limits_.chunk}), plan)) {
    if (running_.front() == &seq) return;
    preempt(*running_.front(), plan);
  }
}

// After a failed step its seqs run one by one: only the one that fails alone is at fault.
bool Scheduler::quarantined(Plan& plan) {
  if (n_suspects_ == 0) return false;
  if (!plan.items.empty()) return true;
  for (Sequence* seq : running_) {
    if (seq->suspect == 0) continue;
    if (seq->awaited == 0 && seq->pending() > 0) place_alone(*seq, plan);
    return true;
  }
  Sequence* seq = tenants_.suspect();
  if (!seq) return false;  // it is held back
  while (n_running() >= limits_.seqs) preempt(*running_.back(), plan);
  begin(*seq, find(*seq), plan);
  place_alone(*seq, plan);
  return true;
}

void Scheduler::extend(Plan& plan, bool ahead) {
  if (quarantined(plan)) return;
  review_turn();
  // Those whose next rows depend on how the running step ends are planned after it: their room is kept.
  plan.kept = 0;
  const std::span<TenantShare* const> turns = tenants_.by_turn();
  int room = decoding_room(plan);
  for (TenantShare* tenant : turns) {
    for (size_t i = 0; i < tenant->running.size(); ++i) {
      Sequence& seq = *tenant->running[i];
      if (seq.state() == SeqState::kPlanned || !seq.decoding() || will_end(seq)) continue;
      if (limits_.stages > 1 && (seq.awaited > 0 || room <= 0)) continue;
      const bool brings = seq.drafts() && (seq.request->drafter || !ahead);
      if (limits_.draft > 0 && seq.awaited > 0 && (brings || seq.guessing)) {
        plan.kept += 1 + limits_.draft;
      } else if (place_decoding(seq, plan)) {
        --room;
      }
    }
  }
  const bool shared = share_rows(plan);
  for (TenantShare* tenant : turns) {
    for (size_t i = 0; i < tenant->running.size(); ++i) {
      Sequence& seq = *tenant->running[i];
      if (wants_prompt(seq)) place_prompt(seq, tenant->grant, plan);
    }
  }
  admit_waiting(plan);
  if (shared) fill_up(plan);
}

// Seqs that decode and may join the plan: where the model has stages, their share of all.
int Scheduler::decoding_room(const Plan& plan) const {
  if (limits_.stages == 1) return limits_.seqs;
  const auto all = std::ranges::count_if(running_, [](const Sequence* seq) { return seq->decoding(); });
  const auto planned = std::ranges::count_if(plan.items, [](const Plan::Item& item) { return item.decoding; });
  return static_cast<int>((all + limits_.stages - 1) / limits_.stages - planned);
}

// It runs, has rows to read before its next token, and none of them is planned.
bool Scheduler::wants_prompt(const Sequence& seq) const {
  return seq.state() != SeqState::kPlanned && !seq.decoding() && seq.pending() > 0 && !will_end(seq);
}

bool Scheduler::can_fork(const Sequence& seq) const {
  const Sequence* first = seq.first;
  const int rows = seq.n_prompt() - 1;
  if (!first || !first->running() || first->kv_len < seq.n_prompt() || rows == 0 || limits_.has_state) return false;
  for (int g = 0; g < pages_.n_groups(); ++g) {
    if (first->pages.slid[static_cast<size_t>(g)] > pages_.first_page(g, rows)) return false;
  }
  return !seq.request->on_logits && !seq.request->on_hidden;
}

PrefixHit Scheduler::find(const Sequence& seq) const {
  if (seq.prefix_root < 0) return {};
  // The last row is always computed: its logits are wanted.
  int rows = seq.n_tokens() - 1;
  rows = std::min(rows, seq.request->computed_from());
  return prefix_->find(seq.prefix_root, seq.tokens, rows / pages_.page_rows());
}

int Scheduler::held_by(const Sequence& seq, int group) const {
  const SeqPages& pages = seq.pages;
  const auto g = static_cast<size_t>(group);
  return pages.groups.empty() ? 0 : static_cast<int>(pages.groups[g].size()) - pages.slid[g];
}

// Pages of the group that it holds or wants for its tokens so far: those of a prompt are its own before it is read.
int Scheduler::claimed_by(const Sequence& seq, int group) const {
  return std::max(held_by(seq, group), pages_.most_pages(group, seq.n_tokens()));
}

// Pages of the group that running seqs claim and do not hold, and one for each that will want another before it ends.
int Scheduler::still_wanted(int group) const {
  int wanted = 0;
  for (const Sequence* seq : running_) {
    const int held = held_by(*seq, group), most = pages_.most_pages(group, seq->longest(limits_.context));
    wanted += std::min(most, claimed_by(*seq, group) + 1) - std::min(most, held);
  }
  return wanted;
}

// Pages of the group that it wants for its tokens so far.
int Scheduler::pages_needed(const Sequence& seq, const PrefixHit& hit, int group) const {
  if (can_fork(seq)) return 2;
  const int all = pages_.most_pages(group, seq.n_tokens() + 1);
  return hit.node < 0 ? all : all - (hit.pages - pages_.first_page(group, hit.pages * pages_.page_rows()));
}

// Whether it will want another page, beyond those for its tokens so far and the next, before it ends.
bool Scheduler::grows(const Sequence& seq, int group) const {
  return pages_.most_pages(group, seq.longest(limits_.context)) > pages_.most_pages(group, seq.n_tokens() + 1);
}

// Whether there are pages for its tokens so far, beside what running seqs want for theirs and one to spare for each
// that grows, one that comes back and one in its turn among them: a seq that is let in and soon preempted has cost its
// prompt twice. Those set aside have gone.
bool Scheduler::has_room(const Sequence& seq, const PrefixHit& hit) const {
  if (n_running() == 0) return true;
  if (n_running() >= limits_.seqs) return false;
  for (int g = 0; g < pages_.n_groups(); ++g) {
    int spare = pages_.available(g) + pages_.aside(g);
    if (hit.node >= 0 && !can_fork(seq)) spare -= prefix_->idle_pages(hit, g);
    int wanted = pages_needed(seq, hit, g) + still_wanted(g);
    if (seq.state() == SeqState::kPreempted || tenants_.turn_of() == &seq) wanted += grows(seq, g);
    if (wanted > spare) return false;
  }
  return true;
}

bool Scheduler::admit(Sequence& seq, Plan& plan) {
  if (!gets_place(seq)) return false;
  const PrefixHit hit = find(seq);
  if (!make_room(seq, hit, plan)) return false;
  begin(seq, hit, plan);
  return place_prompt(seq, seq.tenant->grant, plan);
}

void Scheduler::begin(Sequence& seq, const PrefixHit& hit, Plan& plan) {
  // All that may want memory comes first: from here on nothing can fail.
  plan.states.reserve(plan.states.size() + 2);
  const int longest = seq.longest(limits_.context);
  seq.reserve(longest, limits_.draft, limits_.mask_words);
  pages_.reserve(seq.pages, longest);
  const bool again = seq.state() == SeqState::kPreempted;
  for (Sequence* other : seq.followers) other->deadline_ns = 0;  // their request has begun
  tenants_.remove(seq);
  insert_running(seq);
  // What has its pages by a turn is to be read and a page further, and not read for nothing.
  if (tenants_.turn_of() == &seq) seq.safe_rows = std::max(seq.safe_rows, seq.n_tokens() + pages_.page_rows());
  seq.become(SeqState::kRunning);
  seq.state_slot = slots_.take();
  CHECK(seq.state_slot >= 0, "no slot for seq {}", seq.id);
  if (limits_.has_state) plan.states.push_back({.kind = StateOp::Kind::kClear, .to = seq.state_slot});
  if (can_fork(seq)) {
    fork(seq);
  } else if (hit.node >= 0) {
    prefix_->take(hit, seq.pages);
    seq.kv_len = hit.pages * pages_.page_rows();
    seq.addressed = hit.pages;
    seq.prefix_node = hit.node;
    prefix_->hold(hit.node);
  } else if (seq.prefix_root >= 0) {
    seq.prefix_node = seq.prefix_root;
    prefix_->hold(seq.prefix_root);
  }
  if (limits_.has_state && hit.node >= 0) {
    plan.states.push_back({.kind = StateOp::Kind::kCopy, .from = prefix_->snapshot_of(hit.node), .to = seq.state_slot});
  }
  n_read_ += seq.kv_len;
  seq.begun = ++n_begun_;
  seq.far_rows = seq.kv_len;
  seq.far_at = tenants_.elapsed();
  tenants_.pay(seq);
  if (!again) seq.reused = seq.kv_len;
}

// The first choice has read the prompt: this one takes its pages and computes the last row again for its own token.
void Scheduler::fork(Sequence& seq) {
  const int rows = seq.n_prompt() - 1;
  pages_.share(seq.first->pages, seq.pages, rows);
  seq.kv_len = rows;
  seq.addressed = rows / pages_.page_rows();
  if (seq.prefix_root < 0) return;
  const PrefixHit known = prefix_->find(seq.prefix_root, seq.tokens, seq.addressed);
  if (known.pages != seq.addressed) return;
  seq.prefix_node = known.node >= 0 ? known.node : seq.prefix_root;
  prefix_->hold(seq.prefix_node);
}

}  // namespace ingot
