// Who the seqs belong to, and whose turn it is. What tenants get is counted in rows over their weight: the lower this
// virtual time of a tenant, the sooner it is its turn (start-time fair queueing). Whoever comes, or has had all that
// it asked for, is never behind those who wait: time away earns nothing, and neither does a stream of new names.
// Within a tenant the lowest rank is next.
// Single-threaded: only the engine thread calls it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/sequence.h"

namespace ingot {

struct TenantShare {
  double weight = 1;
  double time = 0;                 // virtual: rows charged over the weight
  double owed = 0;                 // rows that it was charged for twice: they are given back
  int seqs = 0;                    // in the engine
  int bills = 0;                   // seqs that were set back for it and are still to be computed again
  std::vector<Sequence*> queue;    // waiting; the next at the back
  std::vector<Sequence*> running;  // in order
  int64_t came = 0;                // counts those that came: of two with equal times the earlier is first
  double next_take = 0;            // no one else's place or pages before Tenants::clock() is there
  double next_turn = 0;            // and none before Tenants::spent() is
  double turn_again = 0;           // nor what they have by a turn: Tenants::ask_turn()
  // Of the step that is being planned.
  int want = 0;          // rows of prompts that it has
  int grant = 0;         // of them, its share
  bool hungry = false;   // not all rows of its running prompts had room
  bool in_line = false;  // its first waits for pages, and it is not its turn
  bool passed = false;   // others went past that one
  bool full = false;     // its first waits for a place or pages, and it has its share of them

  // It waits for rows, or for what others have.
  bool behind() const { return hungry || (!queue.empty() && !passed); }
  // It waits for a place or pages alone, and has its share of them.
  bool waits_for_place() const { return full && !hungry; }

  int64_t waiting_rows = 0;  // to be read of those in the queue

  int held() const { return static_cast<int>(running.size()); }
  // Rows of prompts that are to be read, of those that wait and those that run.
  int64_t unread() const {
    int64_t rows = waiting_rows;
    for (const Sequence* seq : running) rows += seq->decoding() ? 0 : std::max(0, seq->pending());
    return rows;
  }
};

// What a seq was set back for: another's place or pages within its tenant's share, or its turn to take more.
enum class Taken : uint8_t { kPlace, kPages, kTurn };

class Tenants {
 public:
  // A seq came to the engine, or leaves it: sets its `tenant`. REQUIRES: not in a queue when it leaves.
  void enter(Sequence& seq);
  void leave(Sequence& seq);
  // A seq of the queues.
  void add(Sequence& seq);
  void remove(Sequence& seq);  // REQUIRES: it is here
  // A seq that runs.
  void begin(Sequence& seq);
  void end(Sequence& seq);  // REQUIRES: it is here

  // The tenant's seq is given the rows of [begin, end); those that it has paid for already are owed to it. In its turn
  // it pays less for the others: not what its share of the rows would have read of it while it waited.
  void charge(Sequence& seq, int begin, int end);
  // One that wants more than its tenant's share of the pages has them by a turn, in which it takes them from all
  // others: one at a time, and once it has waited. Of the time, what is computed again among it, its tenant's share are
  // its turns, and all tenants' at most half. `seq`, the next of its tenant, which was gone past, asks for it.
  void ask_turn(Sequence& seq);
  // Of those that may have it and have asked for it since this was last called, who was gone past first. Null: none.
  Sequence* begin_turn();
  Sequence* turn_of() const { return turn_of_; }
  double turn_from() const { return turn_from_; }  // spent() when it began. REQUIRES: somebody has one
  void end_turn();                                 // REQUIRES: somebody has one

  // Work for the tenant that is worth so many rows; one that is forgotten pays nothing.
  void charge_work(const std::string& tenant, double rows) {
    const auto it = tenants_.find(tenant);
    if (it != tenants_.end()) it->second.time += rows / it->second.weight;
  }
  // `seq` was set back for another tenant's sake.
  void bill(Sequence& seq, TenantShare& taker, Taken what = Taken::kPlace);
  // `seq` is about to be set back for another one of its own tenant: what it has in the cache is charged once more.
  void lose(Sequence& seq);
  // It begins again, with what was found of it: what it costs to compute the rest keeps the taker from the next, or is
  // its own tenant's to pay.
  void pay(Sequence& seq);
  // A step of `rows` rows was launched: a part of so many is given back to those who are owed rows, and those that want
  // no more than they got are not behind those that do; who waits for a place or for pages beyond its share is so by no
  // more than some rows.
  void launched(int rows);
  // A step has ended that took as long as so many rows of prompts.
  void ran(double rows);

  // The part of all that a tenant is entitled to, beside those that have seqs in the engine.
  double share(const TenantShare& tenant) const { return tenant.weight / weights_; }
  double weights() const { return weights_; }
  // Of those that have seqs in the engine, whose turn is first.
  std::span<TenantShare* const> by_turn();
  std::span<TenantShare* const> active() const { return active_; }
  // Rows computed since the start, over the weights that were present.
  double clock() const { return clock_; }
  // What steps have taken since the start, in rows of prompts, over the weights that were present.
  double spent() const { return spent_; }
  // The same, not over weights: who comes and goes makes it no slower.
  double elapsed() const { return elapsed_; }
  // Whether the tenant may take places or pages of others again.
  bool may_take(const TenantShare& tenant) const { return clock_ >= tenant.next_take && !waits_for_turn(tenant); }
  // Whether those have their turn that it took from last.
  bool waits_for_turn(const TenantShare& tenant) const { return spent_ < tenant.next_turn; }
  // The tenant of this name, while it has seqs in the engine; null else.
  const TenantShare* find(const std::string& name) const;

  // The lowest rank of those that are suspect; null where none is.
  Sequence* suspect() const;
  // That wait.
  int size() const { return size_; }

  template <class F>
  void each_waiting(F&& f) const {
    for (const TenantShare* tenant : active_) {
      for (Sequence* seq : tenant->queue) f(*seq);
    }
  }

 private:
  void weigh();
  double turn_wait(const TenantShare& tenant, int rows) const;
  void give_back(int rows);
  template <class F>
  double least_time(F&& of, double otherwise) const;

  std::map<std::string, TenantShare> tenants_;
  std::vector<TenantShare*> active_;  // those that have a seq in the engine
  double weights_ = 0;                // theirs
  double level_ = 0;                  // the virtual time that one begins with
  double clock_ = 0;
  double spent_ = 0;
  double elapsed_ = 0;
  Sequence* turn_of_ = nullptr;
  Sequence* turn_asked_ = nullptr;
  double turn_from_ = 0;   // spent_ when it began
  double turn_began_ = 0;  // and elapsed_
  double turn_pause_ = 0;  // none begins before elapsed_ is there
  int64_t came_ = 0;
  int size_ = 0;
};

// The order of a tenant's seqs: earlier arrival and higher priority come first.
inline bool before(const Sequence& a, const Sequence& b) { return a.rank != b.rank ? a.rank < b.rank : a.id < b.id; }

}  // namespace ingot
