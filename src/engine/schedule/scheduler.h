// Which seqs run in the next step, and how many rows each, under the budget of rows: those who decode first, then
// prompts in chunks that keep the step short (Pace), then new ones while there are pages for their prompts.
//
// Tenants (Tenants) share rows, places and pages by weight; scheduler_share.cpp has how. A tenant below its share takes
// from the one furthest above, its last seq first, which is computed again later.
//
// Nobody starves and nothing deadlocks: a tenant's seqs are in one total order, by arrival with a head start for
// priority, and its first can always go on; of all tenants' running seqs the oldest can. docs/engine.md argues it.
//
// Single-threaded: only the engine thread calls it.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "engine/cache/prefix_cache.h"
#include "engine/cache/state_slots.h"
#include "engine/schedule/pace.h"
#include "engine/schedule/tenants.h"
#include "engine/sequence.h"

namespace ingot {

struct SchedulerLimits {
  int rows = 0;           // of a step
  int seqs = 0;           // running at once
  int chunk = 0;          // rows of one prompt in a step
  int context = 0;        // positions of one seq
  int draft = 0;          // guesses of one seq in a step
  size_t mask_words = 0;  // of a mask of tokens
  int stages = 1;         // of the model: steps in flight have disjoint seqs that decode, a share of them each
  bool has_state = false;
  double head_rows = 0;  // what the logits of a row cost, in rows
};

// The next step. It is made while the step before runs, when the tokens that this one makes are not known yet, and may
// be extended and cut until it is launched.
struct Plan {
  struct Item {
    Sequence* seq;  // null: it ended after the step was launched, and what the step makes of it is discarded
    int begin;      // the first row's position
    int rows;
    bool decoding;
    // Set when the step is launched.
    int samples = 0;  // of its last rows, how many are sampled
    // The rows after the first of these were computed for guesses: these of the plan's drafts.
    int first_guess = 0;
    int guesses = 0;
    bool late = false;  // its mask was: what the step draws for it is discarded, and its last rows are run again
  };
  std::vector<Item> items;
  std::vector<int32_t> drafts;
  std::vector<PageCopy> copies;
  std::vector<StateOp> states;
  int rows = 0;
  int prompt_rows = 0;     // of them, rows of prompts
  int kept = 0;            // further rows for those whose drafts are made later
  bool preempted = false;  // somebody gave way: nobody new is let in
  bool changed = false;    // since the batch was filled

  std::span<const int32_t> draft_of(const Item& item) const {
    return std::span(drafts).subspan(static_cast<size_t>(item.first_guess), static_cast<size_t>(item.guesses));
  }
  // Room for a step of so many seqs.
  void reserve(size_t seqs, size_t groups, size_t guesses) {
    items.reserve(seqs);
    drafts.reserve(seqs * guesses);
    copies.reserve(seqs * groups);
    states.reserve(seqs * 3);  // of one seq: clear and copy when it begins, accept or keep when its step has ended
  }
  // REQUIRES: none of its items is marked as planned.
  void clear() {
    items.clear();
    drafts.clear();
    copies.clear();
    states.clear();
    rows = prompt_rows = kept = 0;
    preempted = changed = false;
  }
};

class Scheduler {
 public:
  // What one level of priority is worth: a request goes before those of its tenant's of the level below that came at
  // most so much earlier, and no stream of urgent ones can hold another up for longer.
  static constexpr double kPrioritySeconds = 10;

  Scheduler(const SchedulerLimits& limits, KvPages& pages, StateSlots& slots, PrefixCache* prefix, Pace& pace);

  // A new seq; one that is held back counts, and waits for release() before it takes part.
  void add(Sequence& seq, bool held_back);
  void release(Sequence& seq);
  // Ends a seq wherever it is, and takes it out of the plan. `plan` is the one to launch next; null: nobody is planned.
  void remove(Sequence& seq, Plan* plan);
  // Takes everything from a running seq: it is computed again from its tokens.
  void preempt(Sequence& seq, Plan& plan);
  // The step of this plan is in flight.
  void launched(const Plan& plan);
  // A step of so many rows has ended, which `pace` was told before. `idled`: it waited for masks.
  void ran(int rows, double seconds, bool idled);
  // The plan will not run: those in it that are planned are not.
  void unplan(const Plan& plan);
  // A step failed and nobody knows what is in memory: all running seqs are computed again, and those of the step run
  // alone until they have passed the point where it failed. REQUIRES: nobody is planned.
  void restart(const Plan& failed);
  // The seq has passed that point.
  void clear_suspicion(Sequence& seq);

  // Adds to the plan what has room in it: each item's seq has pages for its rows. `ahead`: the step may be launched
  // before tokens that it follows are known, so nobody whose constraint alone might bring guesses then is left out.
  void extend(Plan& plan, bool ahead = false);
  // What was done for the seq beside its rows, in rows: its tenant pays for it too.
  void charge_work(Sequence& seq, double rows) { tenants_.charge_work(seq.request->tenant, rows); }
  void charge_work(const std::string& tenant, double rows) { tenants_.charge_work(tenant, rows); }

  int n_running() const { return static_cast<int>(running_.size()); }
  int n_waiting() const { return tenants_.size(); }
  int n_suspects() const { return n_suspects_; }
  const std::vector<Sequence*>& running() const { return running_; }
  const Tenants& tenants() const { return tenants_; }
  int64_t n_preempted() const { return n_preempted_; }
  int64_t n_taken() const { return n_taken_; }  // of them, for another tenant's share
  int64_t n_read() const { return n_read_; }    // tokens of prompts, those found in the cache among them
  int64_t n_begun() const { return n_begun_; }  // seqs, each time that one was given a place

 private:
  bool will_end(const Sequence& seq) const;
  bool wants_prompt(const Sequence& seq) const;
  int decoding_room(const Plan& plan) const;
  bool place(Sequence& seq, int rows, Plan& plan);
  int rows_that_fit(const Sequence& seq, int rows);
  void charge(Sequence& seq, int begin, int end);
  bool place_decoding(Sequence& seq, Plan& plan);
  bool place_prompt(Sequence& seq, int most, Plan& plan);
  bool admit(Sequence& seq, Plan& plan);
  PrefixHit find(const Sequence& seq) const;
  bool has_room(const Sequence& seq, const PrefixHit& hit) const;
  int still_wanted(int group) const;
  bool grows(const Sequence& seq, int group) const;
  void begin(Sequence& seq, const PrefixHit& hit, Plan& plan);
  void fork(Sequence& seq);
  bool can_fork(const Sequence& seq) const;
  int prompt_room(const Plan& plan) const;
  bool quarantined(Plan& plan);
  void place_alone(Sequence& seq, Plan& plan);
  void give_back(Sequence& seq);
  void set_back(Sequence& seq);
  void take_out(Sequence& seq, Plan* plan);

  // Shares: scheduler_share.cpp.
  bool share_rows(const Plan& plan);
  int places_left() const;
  int wanted_by_first(TenantShare& tenant, int places) const;
  void fill_up(Plan& plan);
  void lengthen(Sequence& seq, Plan& plan);
  void admit_waiting(Plan& plan);
  enum class Turn : uint8_t { kCame, kBlocked, kNobody };
  // Those that wait for pages, where the others go past them.
  struct Line {
    bool passed = false;             // there is one
    bool waits = false;              // and one that none of its own tenant's keeps out
    int64_t rows = 0;                // of the step, dealt to them: they go to who goes past
    const Sequence* kept = nullptr;  // the one whose turn it is: its pages are kept for it
    // Tenants::spent() when the first of those came whose turn it is, and first_within_share().
    double since = std::numeric_limits<double>::infinity();
    double first_within = since;
  };
  Turn admit_one(bool below_share, Line& line, Plan& plan);
  double first_within_share() const;
  bool may_pass(const Sequence& seq, const Line& line) const;
  void wait_in_line(Sequence& seq, Line& line);
  bool has_turn(Sequence& seq);
  bool in_own_way(const Sequence& seq) const;
  bool reads_in_turn(const Sequence& seq) const;
  bool may_have_turn(const Sequence& seq) const;
  void review_turn();

  // Who gives: scheduler_take.cpp.
  struct Given {
    Sequence* seq = nullptr;
    Taken what = Taken::kPlace;
  };
  bool make_room(const Sequence& seq, const PrefixHit& hit, Plan& plan);
  void set_aside(Sequence& seq);
  void put_back(Sequence& seq);
  void insert_running(Sequence& seq);
  bool is_safe(const Sequence& seq) const;
  void get_on(Sequence& seq, int rows);
  Sequence* gives_page(const Sequence& seq) const;
  bool gets_place(const Sequence& seq) const;
  Given gives_way(const Sequence& seq, const PrefixHit& hit);
  Sequence* gives_in_turn(const Sequence& seq) const;
  Sequence* less_urgent(const Sequence& seq) const;
  Sequence* gives_place(const TenantShare& to) const;
  const TenantShare* gives_pages(const Sequence& seq, const PrefixHit& hit) const;
  Sequence* last_to_give(const TenantShare& from, const TenantShare& to) const;
  bool beyond_share(const Sequence& seq) const;
  int pages_needed(const Sequence& seq, const PrefixHit& hit, int group) const;
  double places_over(const TenantShare& tenant) const;
  int pages_claimed(const TenantShare& tenant, int group) const;
  int held_by(const Sequence& seq, int group) const;
  int claimed_by(const Sequence& seq, int group) const;
  double page_use(const TenantShare& tenant) const;

  const SchedulerLimits limits_;
  KvPages& pages_;
  StateSlots& slots_;
  PrefixCache* prefix_;  // null: pages are not found again
  Pace& pace_;
  std::vector<Sequence*> running_;  // in order
  std::vector<Given> aside_;        // who would give, while it is found out whether they are enough
  std::vector<int> kept_;           // of each group, pages that are kept from others while rows are planned
  Tenants tenants_;
  double step_rows_ = 0;  // what the last steps took, in rows of prompts
  int n_suspects_ = 0;
  int64_t n_preempted_ = 0;
  int64_t n_taken_ = 0;
  int64_t n_read_ = 0;
  int64_t n_begun_ = 0;
};

}  // namespace ingot
