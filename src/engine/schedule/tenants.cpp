#include "engine/schedule/tenants.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ingot {
namespace {

// Names that are remembered after their last seq has left.
constexpr size_t kIdleTenants = 1024;
// A row that is computed again for a tenant's share keeps it from taking more until its share of the rows is so many:
// at most one row in five is computed again for their sake, but for turns (next_turn).
constexpr double kRowsForOne = 4;
// Of the rows of a step, so much is given back to those who were charged for rows twice: however many are computed
// again at once, the others keep the rest of their shares.
constexpr double kGivenBack = 1.0 / 8;
// Rows that a tenant is behind at most for want of a place beyond its share of them. Places are whole and shares are
// not, so it has too few and too many by turns and is to remember that; with more it would keep the others' prompts
// waiting for so many rows once it has a use for them.
constexpr double kSavedRows = 512;
// One that wants more than its share of the pages has its turn to take them once it has waited for so much of the time
// that reading it takes longer with its share of all rows than with all of them. What that share would have read
// meanwhile is taken off what it pays for each of its rows, and is nobody else's: so its first token comes within
// 1 + kTurnWait / 4 of the time that its share takes, and it leaves nothing behind where it goes unread.
constexpr double kTurnWait = 0.75;

bool earlier(const Sequence* a, const Sequence* b) { return before(*a, *b); }
bool later(const Sequence* a, const Sequence* b) { return before(*b, *a); }

void take_out(std::vector<Sequence*>& list, Sequence& seq) {
  const auto it = std::ranges::find(list, &seq);
  CHECK(it != list.end(), "seq {} is not in the list of its tenant", seq.id);
  list.erase(it);
}

}  // namespace

void Tenants::enter(Sequence& seq) {
  const Request& request = *seq.request;
  TenantShare& tenant = tenants_[request.tenant];
  const size_t all = static_cast<size_t>(tenant.seqs) + 1;
  // Coming back never allocates, nor does beginning.
  if (tenant.queue.capacity() < all) tenant.queue.reserve(2 * all);
  if (tenant.running.capacity() < all) tenant.running.reserve(2 * all);
  if (tenant.seqs == 0) {
    active_.push_back(&tenant);
    tenant.owed = 0;
    tenant.came = ++came_;
    tenant.hungry = false;
  }
  ++tenant.seqs;
  // What it has not asked for until now is not owed to it.
  if (tenant.queue.empty() && !tenant.hungry) tenant.time = std::max(tenant.time, level_);
  tenant.weight = request.weight;
  weigh();
  seq.tenant = &tenant;
}

void Tenants::leave(Sequence& seq) {
  if (seq.taken_for) {
    --seq.taken_for->bills;
    seq.taken_for = nullptr;
  }
  if (turn_of_ == &seq) end_turn();
  TenantShare& tenant = *seq.tenant;
  CHECK(tenant.seqs > 0, "tenant of seq {} has no seq", seq.id);
  seq.tenant = nullptr;
  if (--tenant.seqs > 0) return;
  std::erase(active_, &tenant);
  weigh();
  if (tenants_.size() > kIdleTenants && tenant.bills == 0) tenants_.erase(seq.request->tenant);
}

void Tenants::weigh() {
  weights_ = 0;
  for (const TenantShare* tenant : active_) weights_ += tenant->weight;
}

void Tenants::add(Sequence& seq) {
  std::vector<Sequence*>& queue = seq.tenant->queue;
  queue.insert(std::ranges::upper_bound(queue, &seq, later), &seq);
  seq.queued_rows = seq.n_tokens();
  seq.tenant->waiting_rows += seq.queued_rows;
  ++size_;
}

void Tenants::remove(Sequence& seq) {
  seq.passed_at = -1;
  if (turn_asked_ == &seq) turn_asked_ = nullptr;
  take_out(seq.tenant->queue, seq);
  seq.tenant->waiting_rows -= seq.queued_rows;
  --size_;
}

void Tenants::begin(Sequence& seq) {
  std::vector<Sequence*>& running = seq.tenant->running;
  running.insert(std::ranges::upper_bound(running, &seq, earlier), &seq);
}

void Tenants::end(Sequence& seq) { take_out(seq.tenant->running, seq); }

void Tenants::charge(Sequence& seq, int begin, int end) {
  TenantShare& tenant = *seq.tenant;
  const int again = std::max(0, std::min(seq.paid, end) - begin);
  tenant.time += (end - begin) / tenant.weight;
  if (turn_of_ == &seq) tenant.time -= turn_wait(tenant, end - begin - again);
  tenant.owed += again;
  seq.paid = std::max(seq.paid, end);
}

void Tenants::bill(Sequence& seq, TenantShare& taker, Taken what) {
  CHECK(!seq.taken_for, "seq {} is billed already", seq.id);
  seq.taken_for = &taker;
  seq.taken_at = what == Taken::kPages && seq.tenant->running.empty() ? spent_ : -1;
  seq.taken_in_turn = what == Taken::kTurn;
  ++taker.bills;
}

void Tenants::lose(Sequence& seq) { seq.lost = seq.kv_len; }

void Tenants::pay(Sequence& seq) {
  seq.paid = std::max(0, seq.paid - std::max(0, seq.lost - seq.kv_len));
  seq.lost = 0;
  if (!seq.taken_for) return;
  TenantShare& taker = *seq.taken_for;
  const int again = std::max(0, seq.paid - seq.kv_len);
  if (seq.taken_in_turn) {
    // Counted is time here, too: at most half of the taker's, and one row in five of all, are computed again.
    taker.turn_again = std::max(taker.turn_again, spent_) + 2 * again / taker.weight;
    turn_pause_ = std::max(turn_pause_, elapsed_) + kRowsForOne * again;
  } else if (seq.taken_at < 0) {
    taker.next_take = std::max(taker.next_take, clock_) + kRowsForOne * again / taker.weight;
  } else {
    // Its tenant had nothing else that ran, so that the two take turns, and a row of one that decodes alone takes as
    // long as a hundred of a prompt: counted is time. That for which it was kept out, and that in which it is computed
    // again, are the taker's: its share of the time between two such takes, of which at most half is the latter.
    const double out = (spent_ - seq.taken_at) * weights_;
    taker.next_turn = std::max(taker.next_turn, seq.taken_at) + (again + std::max<double>(again, out)) / taker.weight;
  }
  --taker.bills;
  seq.taken_for = nullptr;
}

// Of a tenant's turn for so many rows, by spent().
double Tenants::turn_wait(const TenantShare& tenant, int rows) const {
  return kTurnWait * rows * (1 / tenant.weight - 1 / weights_);
}

void Tenants::ask_turn(Sequence& seq) {
  const TenantShare& tenant = *seq.tenant;
  const double waited = seq.passed_at + turn_wait(tenant, seq.n_tokens());
  if (turn_of_ || seq.passed_at < 0 || spent_ < std::max(waited, tenant.turn_again) || elapsed_ < turn_pause_) return;
  if (!turn_asked_ || seq.passed_at < turn_asked_->passed_at) turn_asked_ = &seq;
}

Sequence* Tenants::begin_turn() {
  if (turn_of_ || !turn_asked_) return nullptr;
  turn_of_ = turn_asked_;
  turn_asked_ = nullptr;
  turn_from_ = spent_;
  turn_began_ = elapsed_;
  return turn_of_;
}

void Tenants::end_turn() {
  CHECK(turn_of_, "nobody has a turn");
  TenantShare& tenant = *turn_of_->tenant;
  const double turn = spent_ - turn_from_;
  tenant.turn_again = std::max(tenant.turn_again, spent_) + turn * (weights_ - tenant.weight) / tenant.weight;
  turn_pause_ = std::max(turn_pause_, elapsed_) + elapsed_ - turn_began_;
  turn_of_ = nullptr;
}

// Who has had least first.
void Tenants::give_back(int rows) {
  double left = kGivenBack * rows;
  for (TenantShare* tenant : by_turn()) {
    const double given = std::min(left, tenant->owed);
    tenant->time -= given / tenant->weight;
    tenant->owed -= given;
    left -= given;
  }
}

// Of those of which that holds.
template <class F>
double Tenants::least_time(F&& of, double otherwise) const {
  bool found = false;
  for (const TenantShare* tenant : active_) {
    if (!of(*tenant)) continue;
    otherwise = found ? std::min(otherwise, tenant->time) : tenant->time;
    found = true;
  }
  return otherwise;
}

// Where nobody waits for anything nobody is owed anything either.
void Tenants::launched(int rows) {
  if (active_.empty()) return;
  clock_ += rows / weights_;
  give_back(rows);
  double most = level_;
  for (const TenantShare* tenant : active_) most = std::max(most, tenant->time);
  const double least = least_time([](auto& one) { return one.behind() && !one.waits_for_place(); }, most);
  for (TenantShare* tenant : active_) {
    if (tenant->waits_for_place()) tenant->time = std::max(tenant->time, least - kSavedRows / tenant->weight);
  }
  level_ = std::max(level_, least_time([](auto& one) { return one.behind(); }, most));
  for (TenantShare* tenant : active_) {
    if (!tenant->behind()) tenant->time = std::max(tenant->time, level_);
    tenant->hungry = tenant->in_line = tenant->passed = tenant->full = false;
  }
}

void Tenants::ran(double rows) {
  elapsed_ += rows;
  if (weights_ > 0) spent_ += rows / weights_;
}

std::span<TenantShare* const> Tenants::by_turn() {
  std::ranges::sort(active_, [](const TenantShare* a, const TenantShare* b) {
    return a->time != b->time ? a->time < b->time : a->came < b->came;
  });
  return active_;
}

const TenantShare* Tenants::find(const std::string& name) const {
  const auto it = tenants_.find(name);
  return it != tenants_.end() && it->second.seqs > 0 ? &it->second : nullptr;
}

Sequence* Tenants::suspect() const {
  Sequence* first = nullptr;
  each_waiting([&](Sequence& seq) {
    if (seq.suspect && (!first || before(seq, *first))) first = &seq;
  });
  return first;
}

}  // namespace ingot
