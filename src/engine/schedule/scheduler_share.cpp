// How tenants share a step's rows, the places and the pages. With one tenant alone nothing here decides anything.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/schedule/scheduler.h"

namespace ingot {
namespace {

constexpr int kAll = std::numeric_limits<int>::max();
// Rows of prompts are dealt out in so many parts.
constexpr int kDeals = 64;
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

// Places that are free beside those that tenants below their share of them will take first.
int Scheduler::places_left() const {
  int left = limits_.seqs - n_running();
  for (const TenantShare* tenant : tenants_.active()) {
    const int below = static_cast<int>(std::ceil(std::max(0.0, -places_over(*tenant))));
    left -= std::min(below, static_cast<int>(tenant->queue.size()));
  }
  return left;
}

// Rows of its first seq that waits, where that gets a place. Where it gets none they are the others', and its tenant is
// not behind for a place that it does not have to get now: one beyond its share, or while others it took from have
// theirs.
int Scheduler::wanted_by_first(TenantShare& tenant, int places) const {
  if (tenant.queue.empty()) return 0;
  const Sequence& seq = *tenant.queue.back();
  const bool below = places_over(tenant) < 0;
  if (gets_place(seq) && (below || places > 0 || less_urgent(seq))) return seq.n_tokens();
  tenant.full |= !below;
  tenant.passed |= tenants_.waits_for_turn(tenant);
  return 0;
}

// Deals out the room for rows of prompts: each part goes to the tenant whose turn it is once it has what it was dealt
// already. False where at most one wants any, and that one may have all.
bool Scheduler::share_rows(const Plan& plan) {
  int wanting = 0;
  const int places = places_left();
  const std::span<TenantShare* const> tenants = tenants_.active();
  for (TenantShare* tenant : tenants) {
    int64_t want = wanted_by_first(*tenant, places);
    for (const Sequence* seq : tenant->running) want += wants_prompt(*seq) ? seq->pending() : 0;
    tenant->want = static_cast<int>(std::min<int64_t>(want, kAll));
    wanting += want > 0;
  }
  int room = std::max(0, prompt_room(plan));
  for (TenantShare* tenant : tenants) tenant->grant = wanting <= 1 ? kAll : 0;
  if (wanting <= 1) return false;
  const int deal = std::max(1, room / kDeals);
  while (room > 0) {
    TenantShare* next = nullptr;
    double first = 0;
    for (TenantShare* tenant : tenants) {
      const double time = tenant->time + tenant->grant / tenant->weight;
      if (tenant->grant >= tenant->want || (next && (time > first || (time == first && next->came < tenant->came)))) {
        continue;
      }
      next = tenant;
      first = time;
    }
    if (!next) return true;
    const int rows = std::min({deal, room, next->want - next->grant});
    next->grant += rows;
    room -= rows;
  }
  return true;
}

// What some could not use of their shares goes to the others.
void Scheduler::fill_up(Plan& plan) {
  for (TenantShare* tenant : tenants_.by_turn()) {
    for (size_t i = 0; i < tenant->running.size() && prompt_room(plan) > 0; ++i) {
      Sequence& seq = *tenant->running[i];
      if (seq.state() == SeqState::kPlanned) {
        lengthen(seq, plan);
      } else if (wants_prompt(seq)) {
        place_prompt(seq, kAll, plan);
      }
    }
  }
}

// More rows of a prompt that is planned, where there are pages. A chunk that ends where a state is kept stays.
void Scheduler::lengthen(Sequence& seq, Plan& plan) {
  const auto it = std::ranges::find(plan.items, &seq, &Plan::Item::seq);
  if (limits_.has_state || it == plan.items.end() || it->decoding) return;
  const int more = std::min({seq.pending() - it->rows, limits_.chunk - it->rows, prompt_room(plan)});
  if (more <= 0) return;
  const int fit = rows_that_fit(seq, it->rows + more);
  if (fit <= it->rows) return;
  const bool grown = pages_.grow(seq.pages, seq.kv_len, seq.kv_len + fit, plan.copies);
  CHECK(grown, "{} rows fit and have no pages", fit);
  charge(seq, seq.kv_len + it->rows, seq.kv_len + fit);
  get_on(seq, fit);
  n_read_ += fit - it->rows;
  plan.rows += fit - it->rows;
  plan.prompt_rows += fit - it->rows;
  it->rows = fit;
  plan.changed = true;
}

// Those below their share of the places first; the others have what is left.
void Scheduler::admit_waiting(Plan& plan) {
  Line line;
  while (!plan.preempted && prompt_room(plan) > 0) {
    Turn turn = admit_one(true, line, plan);
    if (turn == Turn::kNobody) turn = admit_one(false, line, plan);
    if (turn != Turn::kCame) return;
  }
}

// The first whose turn it is. Where there are no pages for it the others go past it, but for what is kept for it.
Scheduler::Turn Scheduler::admit_one(bool below_share, Line& line, Plan& plan) {
  line.first_within = first_within_share();
  for (TenantShare* tenant : tenants_.by_turn()) {
    const bool below = places_over(*tenant) < 0;
    if (tenant->queue.empty() || tenant->grant + line.rows <= 0 || below != below_share) continue;
    Sequence& seq = *tenant->queue.back();
    if (!may_pass(seq, line)) {
      if (beyond_share(seq) && gets_place(seq)) wait_in_line(seq, line);
      continue;
    }
    tenant->grant = static_cast<int>(std::min<int64_t>(kAll, tenant->grant + line.rows));
    const bool came = admit(seq, plan);
    if (line.passed) line.rows = std::max(0, std::exchange(tenant->grant, 0));
    if (came) {
      for (TenantShare* one : tenants_.active()) one->passed |= one->in_line && one != tenant;
      return Turn::kCame;
    }
    if (plan.preempted || seq.running()) return Turn::kBlocked;
    if (gets_place(seq)) wait_in_line(seq, line);
  }
  return Turn::kNobody;
}

// Whether it is its turn, which waits and is the next of its tenant: it takes what it wants once all who are to give it
// have got far enough, and meanwhile nobody goes past it who would keep that from it.
bool Scheduler::has_turn(Sequence& seq) {
  if (!may_have_turn(seq)) return false;
  if (!beyond_share(seq) || tenants_.turn_of() == &seq) return true;
  tenants_.ask_turn(seq);
  return false;
}

// Its own tenant's have the pages that it wants: with them it would use more than its share.
bool Scheduler::in_own_way(const Sequence& seq) const { return !seq.tenant->running.empty() && beyond_share(seq); }

// It has its pages by its turn, which is not over.
bool Scheduler::reads_in_turn(const Sequence& seq) const { return tenants_.turn_of() == &seq && seq.running(); }

// Its own tenant's are not in its way, nor what its tenant has taken.
bool Scheduler::may_have_turn(const Sequence& seq) const {
  const TenantShare& tenant = *seq.tenant;
  return tenant.running.empty() && tenants_.may_take(tenant);
}

// A turn to take more than a tenant's share is over once its seq is read and a page further, or does not get on. It
// lapses where its own tenant's go before it, or it does not want or get it any more.
void Scheduler::review_turn() {
  if (Sequence* next = tenants_.begin_turn()) next->begun = n_begun_;
  const Sequence* seq = tenants_.turn_of();
  if (!seq) return;
  const auto waits = [&] {
    return seq->tenant->queue.back() == seq && may_have_turn(*seq) && beyond_share(*seq) && gets_place(*seq);
  };
  if (seq->running() ? !is_safe(*seq) : !waits()) tenants_.end_turn();
}

// The others go past it, but for its turns.
void Scheduler::wait_in_line(Sequence& seq, Line& line) {
  TenantShare& tenant = *seq.tenant;
  if (seq.begun < 0) seq.begun = n_begun_;
  // Behind its own it waits neither for a turn nor for what others owe it.
  tenant.full |= in_own_way(seq);
  if (!tenant.running.empty()) {
    seq.passed_at = -1;
  } else if (seq.passed_at < 0) {
    seq.passed_at = tenants_.spent();
  }
  const bool turn = has_turn(seq);
  tenant.in_line = !turn;
  if (turn && (!line.kept || seq.n_tokens() > line.kept->n_tokens())) line.kept = &seq;
  if (turn) line.since = std::min(line.since, tenants_.turn_of() == &seq ? tenants_.turn_from() : seq.passed_at);
  line.rows += std::exchange(tenant.grant, 0);
  line.passed = true;
  line.waits |= !in_own_way(seq);
}

// Since when the first waits of those that have nothing and fit into their tenants' shares.
double Scheduler::first_within_share() const {
  double first = kNever;
  for (const TenantShare* tenant : tenants_.active()) {
    if (tenant->queue.empty()) continue;
    const Sequence& seq = *tenant->queue.back();
    if (seq.passed_at >= 0 && seq.passed_at < first && may_have_turn(seq) && !beyond_share(seq)) first = seq.passed_at;
  }
  return first;
}

// Whether it goes past those that wait. With more than its tenant's share only where nobody waits within its own, but
// by a turn that began before that one came; and in its turn or, where all wait for what their own have, with what is
// free. With no more, where pages are kept for nobody or since later; else as the only one of its tenant, where those
// are left, however long it and those grow that began since.
bool Scheduler::may_pass(const Sequence& seq, const Line& line) const {
  const bool turn = tenants_.turn_of() == &seq;
  if (beyond_share(seq)) {
    if (line.first_within < (turn ? tenants_.turn_from() : kNever)) return false;
    return !line.passed || turn || (!line.waits && has_room(seq, find(seq)));
  }
  if (!line.kept || turn || (seq.passed_at >= 0 && seq.passed_at <= line.since)) return true;
  if (!seq.tenant->running.empty()) return false;
  for (int g = 0; g < pages_.n_groups(); ++g) {
    const auto most = [&](const Sequence& one) { return pages_.most_pages(g, one.longest(limits_.context)); };
    int pages = pages_.most_pages(g, line.kept->n_tokens() + 1) + most(seq);
    for (const Sequence* other : running_) pages += other->begun > line.kept->begun ? most(*other) : 0;
    if (pages > pages_.total_pages(g)) return false;
  }
  return true;
}

}  // namespace ingot
