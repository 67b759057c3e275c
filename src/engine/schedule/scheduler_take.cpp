// Who gives places and pages to those that wait, or to one that runs and needs a page.
#include <algorithm>
#include <span>

#include "engine/schedule/scheduler.h"

namespace ingot {
namespace {

// Places are whole and shares are not: a tenant takes the place of which a part is its own once it is so many rows
// behind. The fewer, the evener the shares; each such turn costs a tail of a page that is computed again.
constexpr double kBehindRows = 64;
// What is read again gives way to so many that have nothing running. Fewer keep a newcomer waiting for its reading,
// more have one prompt read so many times.
constexpr int kInterruptions = 4;
// Whoever is safe gets a page further in so many times what that takes one that answers, in steps like the last ones or
// as long as so many rows of a prompt (575 on an H200 with 256 seqs); else it is safe no more. What is read takes less
// than half of it even where 16 rows of prompts join a step and 16 tenants share them.
constexpr double kPatience = 4;
constexpr double kRowsOfAStep = 100;

bool came_before(const Sequence& a, const Sequence& b) {
  return a.came_ns != b.came_ns ? a.came_ns < b.came_ns : a.id < b.id;
}

// Of two tenants that are as far above their share the later gives way: of all there is one that is furthest above.
bool further(double a, const TenantShare& of_a, double b, const TenantShare& of_b) {
  return a != b ? a > b : of_a.came > of_b.came;
}

}  // namespace

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

// Nobody else's share sets it back: it has not got as far as it is to get, and gets on. Its own masks or whatever else
// makes its tokens slow keep its pages from others for no longer.
bool Scheduler::is_safe(const Sequence& seq) const {
  const double step = std::max(kRowsOfAStep, step_rows_) * limits_.stages;  // of stages one in so many is its own
  const double patience = kPatience * step * pages_.page_rows();
  return seq.kv_len < seq.safe_rows && tenants_.elapsed() - seq.far_at <= patience;
}

// It is given so many rows. Those that are run again since their mask was late bring it no further.
void Scheduler::get_on(Sequence& seq, int rows) {
  if (seq.kv_len + rows < seq.far_rows + pages_.page_rows()) return;
  seq.far_rows = seq.kv_len + rows;
  seq.far_at = tenants_.elapsed();
}

// Who is set back for a page that `seq` needs to go on; null: it waits itself. The tenant furthest above its share of
// the pages gives, its last seq first; but the oldest of all that run gives to its own tenant only, and what is read in
// its turn, to nobody.
Sequence* Scheduler::gives_page(const Sequence& seq) const {
  const Sequence* oldest = *std::ranges::min_element(running_, [](auto* a, auto* b) { return came_before(*a, *b); });
  Sequence* found = nullptr;
  const TenantShare* of = nullptr;
  double most = 0;
  for (const TenantShare* tenant : tenants_.active()) {
    if (tenant->running.empty()) continue;
    const bool own = tenant == seq.tenant;
    size_t last = tenant->running.size();
    const auto keeps = [&](const Sequence* one) {
      return one != &seq && (reads_in_turn(*one) || (!own && one == oldest));
    };
    while (last > 0 && keeps(tenant->running[last - 1])) --last;
    if (last-- == 0) continue;
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

// Sets back whom it takes to let `seq` begin: all of them or, where those that may give are not enough, nobody.
bool Scheduler::make_room(const Sequence& seq, const PrefixHit& hit, Plan& plan) {
  bool room = false;
  while (!(room = has_room(seq, hit))) {
    const Given next = gives_way(seq, hit);
    if (!next.seq) break;
    set_aside(*next.seq);
    aside_.push_back(next);
  }
  for (const Given& one : aside_) put_back(*one.seq);
  for (const Given& one : room ? std::span(aside_) : std::span<Given>()) {
    Sequence& other = *one.seq;
    const bool own = other.tenant == seq.tenant;
    if (own) tenants_.lose(other);
    preempt(other, plan);
    if (own) continue;
    tenants_.bill(other, *seq.tenant, one.what);
    ++n_taken_;
  }
  aside_.clear();
  return room;
}

// It counts as one that has been set back.
void Scheduler::set_aside(Sequence& seq) {
  pages_.set_aside(seq.pages);
  std::erase(running_, &seq);
  tenants_.end(seq);
}

void Scheduler::put_back(Sequence& seq) {
  pages_.put_back(seq.pages);
  insert_running(seq);
}

void Scheduler::insert_running(Sequence& seq) {
  const auto place =
      std::ranges::upper_bound(running_, &seq, [](const Sequence* a, const Sequence* b) { return before(*a, *b); });
  running_.insert(place, &seq);
  tenants_.begin(seq);
}

// Who is set back next so that `seq` can begin; null: nobody.
Scheduler::Given Scheduler::gives_way(const Sequence& seq, const PrefixHit& hit) {
  const TenantShare& tenant = *seq.tenant;
  if (Sequence* own = less_urgent(seq)) return {own};
  if (!tenants_.may_take(tenant)) return {};
  Sequence* place = nullptr;
  if (n_running() >= limits_.seqs) {
    place = gives_place(tenant);
    if (!place) return {};
    set_aside(*place);
    const bool room = has_room(seq, hit);
    put_back(*place);
    if (room) return {place};
  }
  if (const TenantShare* from = gives_pages(seq, hit)) {
    Sequence* last = last_to_give(*from, tenant);
    return {last, last == place ? Taken::kPlace : Taken::kPages};
  }
  if (tenants_.turn_of() == &seq) return {gives_in_turn(seq), Taken::kTurn};
  return {place};
}

// Of all others the tenant that uses most of its share gives to one whose turn it is, its last seq first; not what is
// being read, which ends soon.
Sequence* Scheduler::gives_in_turn(const Sequence& seq) const {
  Sequence* found = nullptr;
  double most = 0;
  for (const TenantShare* tenant : tenants_.active()) {
    if (tenant == seq.tenant) continue;
    const auto gives = [this](const Sequence* one) { return one->answers() && !is_safe(*one); };
    const auto last = std::find_if(tenant->running.rbegin(), tenant->running.rend(), gives);
    if (last == tenant->running.rend()) continue;
    const double use = page_use(*tenant);
    if (found && !further(use, *tenant, most, *found->tenant)) continue;
    found = *last;
    most = use;
  }
  return found;
}

// The last of a tenant's seqs that has got further since it was last set back. Where none has, one that is still read
// again gives way to a tenant that has nothing, once for each that is present: whose text is long keeps its pages from
// nobody for as long as reading it takes. What has them by a turn gives none before that is over. Null: nobody.
Sequence* Scheduler::last_to_give(const TenantShare& from, const TenantShare& to) const {
  Sequence* reading = nullptr;
  for (size_t i = from.running.size(); i-- > 0;) {
    Sequence* seq = from.running[i];
    if (tenants_.turn_of() == seq) continue;
    if (!is_safe(*seq)) return seq;
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
