#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace ingot {

void Scheduler::free(Sequence& seq) {
  pages_.release(seq.pages);
  seq.kv_len = 0;
  if (seq.state_slot >= 0) slots_.give(seq.state_slot);
  seq.state_slot = -1;
}

bool Scheduler::remove(SeqId id) {
  for (auto* list : {&running_, &waiting_}) {
    const auto it = std::ranges::find_if(*list, [&](const auto& seq) { return seq->id == id; });
    if (it == list->end()) continue;
    free(**it);
    list->erase(it);
    return true;
  }
  return false;
}

// The first of the waiting becomes a running seq, if there is room for one more.
bool Scheduler::admit() {
  if (waiting_.empty() || n_running() >= limits_.seqs) return false;
  const int slot = slots_.take();
  if (slot < 0) return false;
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  running_.back()->state_slot = slot;
  return true;
}

void Scheduler::preempt_last() {
  free(*running_.back());
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
  ++n_preempted_;
}

// Pages for `rows` more rows of `seq`, taken from younger seqs if need be.
bool Scheduler::reserve(Sequence& seq, int rows) {
  while (!pages_.grow(seq.pages, seq.kv_len + rows)) {
    if (running_.back().get() == &seq) return false;
    preempt_last();
  }
  return true;
}

std::vector<Scheduler::Item> Scheduler::next() {
  std::vector<Item> items;
  int budget = limits_.rows;
  const int64_t preempted = n_preempted_;
  const auto schedule = [&](Sequence& seq) {
    const int rows = std::min({seq.pending(), budget, limits_.chunk});
    if (rows <= 0) return false;
    if (!reserve(seq, rows)) return false;
    items.push_back({&seq, rows});
    budget -= rows;
    return true;
  };
  // Decoding seqs first, then prompts, each oldest first: a long prompt delays nobody's next token.
  for (const bool decoding : {true, false}) {
    for (size_t i = 0; i < running_.size(); ++i) {
      if ((running_[i]->pending() == 1) == decoding) schedule(*running_[i]);
    }
  }
  // No seq that was preempted for an older one comes back in the same step.
  while (budget > 0 && preempted == n_preempted_ && admit()) {
    if (!schedule(*running_.back())) {
      preempt_last();
      break;
    }
  }
  // A seq scheduled early may have been preempted for an older one's sake.
  std::erase_if(items, [](const Item& item) { return item.seq->state_slot < 0; });
  CHECK(!items.empty() || idle(), "{} seqs run and none can go on", n_running());
  return items;
}

}  // namespace ingot
