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
// Places are whole and shares are not: a tenant takes the place of which a part is its own once it is so many rows
// behind. The fewer, the evener the shares; each such turn costs a tail of a page that is computed again.
constexpr double kBehindRows = 64;
// What is read again gives way to so many that have nothing running. Fewer keep a newcomer waiting for its reading,
// more have one prompt read so many times.
constexpr int kInterruptions = 4;

bool came_before(const Sequence& a, const Sequence& b) {
  return a.came_ns != b.came_ns ? a.came_ns < b.came_ns : a.id < b.id;
}

// Of two tenants that are as far above their share the later gives way: of all there is one that is furthest above.
bool further(double a, const TenantShare& of_a, double b, const TenantShare& of_b) {
  return a != b ? a > b : of_a.came > of_b.came;
}

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
  const int fit = pages_.rows_that_fit(seq.pages, seq.kv_len, it->rows + more);
  if (fit <= it->rows) return;
  const bool grown = pages_.grow(seq.pages, seq.kv_len, seq.kv_len + fit, plan.copies);
  CHECK(grown, "{} rows fit and have no pages", fit);
  charge(seq, seq.kv_len + it->rows, seq.kv_len + fit);
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
  for (TenantShare* tenant : tenants_.by_turn()) {
    const bool below = places_over(*tenant) < 0;
    if (tenant->queue.empty() || tenant->grant + line.rows <= 0 || below != below_share) continue;
    Sequence& seq = *tenant->queue.back();
    if (line.passed && beyond_share(seq) && gets_place(seq)) wait_in_line(seq, line);
    if (!may_pass(seq, line)) continue;
    tenant->grant = static_cast<int>(std::min<int64_t>(kAll, tenant->grant + line.rows));
    const bool came = admit(seq, plan);
    if (line.passed) line.rows = std::max(0, std::exchange(tenant->grant, 0));
    if (came) return Turn::kCame;
    if (plan.preempted || seq.running()) return Turn::kBlocked;
    if (gets_place(seq)) wait_in_line(seq, line);
  }
  return Turn::kNobody;
}

// The others go past it, but for its turns: those it has while none of its own tenant's runs. One that wants no more
// than its tenant's share has one from when the tenant may take what others have until they have got far enough to give
// it.
void Scheduler::wait_in_line(Sequence& seq, Line& line) {
  TenantShare& tenant = *seq.tenant;
  if (seq.begun < 0) seq.begun = n_begun_;
  const bool turn = tenant.running.empty() && (beyond_share(seq) ? tenants_.hold_line(seq) : tenants_.may_take(tenant));
  tenant.passed = !turn;
  if (turn && (!line.kept || seq.n_tokens() > line.kept->n_tokens())) line.kept = &seq;
  line.rows += std::exchange(tenant.grant, 0);
  line.passed = true;
}

// Whether it goes past those that wait: with no more than its tenant's share, and in another's turn as the only one of
// its tenant, where the pages for that one are left, however long it and those grow that began since.
bool Scheduler::may_pass(const Sequence& seq, const Line& line) const {
  if (!line.passed) return true;
  if (beyond_share(seq)) return false;
  if (line.kept && !seq.tenant->running.empty()) return false;
  for (int g = 0; line.kept && g < pages_.n_groups(); ++g) {
    const auto most = [&](const Sequence& one) { return pages_.most_pages(g, one.longest(limits_.context)); };
    int pages = pages_.most_pages(g, line.kept->n_tokens() + 1) + most(seq);
    for (const Sequence* other : running_) pages += other->begun > line.kept->begun ? most(*other) : 0;
    if (pages > pages_.total_pages(g)) return false;
  }
  return true;
}

double Scheduler::places_over(const TenantShare& tenant) const {
  return tenant.held() - limits_.seqs * tenants_.share(tenant);
}

int Scheduler::pages_claimed(const TenantShare& tenant, int group) const {
  int claimed = 0;
  for (const Sequence* seq : tenant.running) claimed += claimed_by(*seq, group);
  return claimed;
}

// Of its share: above 1 it has more.
double Scheduler::page_use(const TenantShare& tenant) const {
  double most = 0;
  for (int g = 0; g < pages_.n_groups(); ++g) {
    most = std::max(most, pages_claimed(tenant, g) / (pages_.total_pages(g) * tenants_.share(tenant)));
  }
  return most;
}

// Whether its tenant uses more than its share once `seq` runs, which waits.
bool Scheduler::beyond_share(const Sequence& seq) const {
  for (int g = 0; g < pages_.n_groups(); ++g) {
    const int claimed = pages_claimed(*seq.tenant, g) + pages_.most_pages(g, seq.n_tokens() + 1);
    if (claimed > pages_.total_pages(g) * tenants_.share(*seq.tenant)) return true;
  }
  return false;
}

// Who is set back for a page that `seq` needs to go on; null: it waits itself. The tenant furthest above its share of
// the pages gives, its last seq first; but the oldest of all that run gives to its own tenant only.
Sequence* Scheduler::gives_page(const Sequence& seq) const {
  const Sequence* oldest = *std::ranges::min_element(running_, [](auto* a, auto* b) { return came_before(*a, *b); });
  Sequence* found = nullptr;
  const TenantShare* of = nullptr;
  double most = 0;
  for (const TenantShare* tenant : tenants_.active()) {
    if (tenant->running.empty()) continue;
    const bool own = tenant == seq.tenant;
    size_t last = tenant->running.size() - 1;
    if (!own && tenant->running[last] == oldest) {
      if (last == 0) continue;
      --last;
    }
    // The oldest waits for no other tenant.
    if (own && tenant->running[last] == &seq && &seq == oldest) continue;
    const double use = page_use(*tenant);
    if (of && !further(use, *tenant, most, *of)) continue;
    found = tenant->running[last];
    of = tenant;
    most = use;
  }
  return found == &seq ? nullptr : found;
}

// Among its own only the more urgent pushes others out.
Sequence* Scheduler::less_urgent(const Sequence& seq) const {
  if (seq.tenant->running.empty()) return nullptr;
  Sequence& last = *seq.tenant->running.back();
  return last.request->priority < seq.request->priority && !before(last, seq) ? &last : nullptr;
}

// Whether there is a place for it, or one that others have to give.
bool Scheduler::gets_place(const Sequence& seq) const {
  if (n_running() < limits_.seqs || less_urgent(seq)) return true;
  return tenants_.may_take(*seq.tenant) && gives_place(*seq.tenant);
}

// Who is set back so that `seq` can begin; null: nobody.
Sequence* Scheduler::gives_way(const Sequence& seq, const PrefixHit& hit) const {
  const TenantShare& tenant = *seq.tenant;
  if (Sequence* own = less_urgent(seq)) return own;
  if (!tenants_.may_take(tenant)) return nullptr;
  if (n_running() >= limits_.seqs) {
    Sequence* other = gives_place(tenant);
    if (!other || has_room(seq, hit, other)) return other;
    // A place without pages is of no use: nobody is set back for it alone but, in a turn, who has at most a page.
    const bool turn = tenant.running.empty() && tenants_.spent() < tenant.line_until;
    if (turn && other->kv_len <= pages_.page_rows()) return other;
  }
  const TenantShare* from = gives_pages(seq, hit);
  return from ? last_to_give(*from, tenant) : nullptr;
}

// The last of a tenant's seqs that has got further since it was last set back. Where none has, one that is still read
// again gives way to a tenant that has nothing, once for each that is present: whose text is long keeps its pages from
// nobody for as long as reading it takes. Null: none.
Sequence* Scheduler::last_to_give(const TenantShare& from, const TenantShare& to) const {
  Sequence* reading = nullptr;
  for (size_t i = from.running.size(); i-- > 0;) {
    Sequence* seq = from.running[i];
    if (seq->kv_len >= seq->safe_rows) return seq;
    const int most = std::min(kInterruptions, static_cast<int>(tenants_.active().size()));
    const bool again = seq->interrupted < most && !seq->decoding();
    if (!reading && again && to.running.empty()) reading = seq;
  }
  return reading;
}

// Who gives a place to a tenant below its share; null: nobody.
Sequence* Scheduler::gives_place(const TenantShare& to) const {
  if (places_over(to) >= 0) return nullptr;
  const TenantShare* from = nullptr;
  for (const TenantShare* tenant : tenants_.active()) {
    const double over = places_over(*tenant);
    if (over > 0 && (!from || further(over, *tenant, places_over(*from), *from))) from = tenant;
  }
  // A whole place of one of the two is at stake; else they take turns.
  const bool whole = places_over(to) <= -1 || (from && places_over(*from) >= 1);
  if (!from || (!whole && (from->time - to.time) * to.weight < kBehindRows)) return nullptr;
  return last_to_give(*from, to);
}

// The same for pages.
const TenantShare* Scheduler::gives_pages(const Sequence& seq, const PrefixHit& hit) const {
  double after = 0;  // what its tenant will use of its share
  for (int g = 0; g < pages_.n_groups(); ++g) {
    const double share = pages_.total_pages(g) * tenants_.share(*seq.tenant);
    after = std::max(after, (pages_claimed(*seq.tenant, g) + pages_needed(seq, hit, g)) / share);
  }
  if (after > 1) return nullptr;
  const TenantShare* from = nullptr;
  double most = 1;
  for (const TenantShare* tenant : tenants_.active()) {
    const double use = page_use(*tenant);
    if (use <= 1 || tenant == seq.tenant || (from && !further(use, *tenant, most, *from))) continue;
    from = tenant;
    most = use;
  }
  const Sequence* last = from ? last_to_give(*from, *seq.tenant) : nullptr;
  if (!last) return nullptr;
  // Nobody gives where the two would then be further apart than they are: one long prompt, a few pages beyond the share
  // of its tenant, is not read again for a short one of a tenant that has many.
  double left = 0;
  for (int g = 0; g < pages_.n_groups(); ++g) {
    const int claimed = pages_claimed(*from, g) - claimed_by(*last, g);
    left = std::max(left, claimed / (pages_.total_pages(g) * tenants_.share(*from)));
  }
  const double use = page_use(*seq.tenant);
  // A prompt that is being read ends soon, and its tenant waits for a first token: it is not read again for who has
  // more running than that tenant would be left with.
  if (!last->decoding() && left < use) return nullptr;
  return after - left > most - use ? nullptr : from;
}

}  // namespace ingot
