// How requests leave the engine's core: cancelled, past a deadline, or ended by what a step made of them.
#include <algorithm>
#include <utility>

#include "engine/core.h"

namespace ingot {

bool EngineCore::cancel(SeqId request) {
  const auto it = seqs_.find(request);
  bool found = false;
  // The first choice may have ended before the others.
  int choices = it == seqs_.end() ? Request::kMaxChoices : it->second->request->choices;
  const Request* of = it == seqs_.end() ? nullptr : it->second->request.get();
  for (int c = 0; c < choices; ++c) {
    const auto choice = seqs_.find(request + c);
    if (choice == seqs_.end()) continue;
    Sequence& seq = *choice->second;
    if (seq.choice_of_request() != c || (of && seq.request.get() != of)) break;
    of = seq.request.get();
    choices = of->choices;
    if (seq.ended()) std::erase(ended_, &seq);  // since the last sweep
    erase(seq);
    found = true;
  }
  stats_.cancelled += found;
  return found;
}

bool EngineCore::cancel(SeqId request, int choice) {
  const auto it = seqs_.find(request + choice);
  if (it == seqs_.end() || it->second->choice_of_request() != choice) return false;
  if (it->second->ended()) std::erase(ended_, it->second.get());
  erase(*it->second);
  ++stats_.stopped;
  return true;
}

void EngineCore::await_deadline(int64_t ns) {
  next_deadline_ns_ = next_deadline_ns_ == 0 ? ns : std::min(next_deadline_ns_, ns);
}

// Those that have waited longer than they were willing to, and those that took longer than they were given. Whatever a
// step in flight makes of them is discarded.
void EngineCore::expire() {
  const int64_t now = next_deadline_ns_ ? options_.now_ns() : 0;
  if (next_deadline_ns_ == 0 || now < next_deadline_ns_) return;
  try {
    events_.reserve(most_events() + seqs_.size());
    ended_.reserve(static_cast<size_t>(limits_.seqs) + seqs_.size());
  } catch (const std::bad_alloc&) {
    return;  // in the next step then
  }
  next_deadline_ns_ = 0;
  for (const auto& [id, seq] : seqs_) {
    if (seq->timeout_ns > 0 && seq->timeout_ns <= now) {
      end(*seq, FinishReason::kTimeout);
      ++stats_.timeouts;
      continue;
    }
    if (seq->timeout_ns > 0) await_deadline(seq->timeout_ns);
    if (!seq->unserved() || seq->deadline_ns == 0) continue;
    if (seq->deadline_ns <= now) {
      end(*seq, FinishReason::kDeadline);
      ++stats_.expired;
    } else {
      await_deadline(seq->deadline_ns);
    }
  }
  sweep();
}

// Its caller is told `reason`, where there is memory for it.
void EngineCore::end(Sequence& seq, FinishReason finish, const char* reason) {
  if (seq.ended()) return;
  stats_.errors += finish == FinishReason::kError || finish == FinishReason::kConstraint;
  tell(seq, {}, finish);
  if (!reason) return;
  try {
    events_.back().reason = reason;
  } catch (const std::bad_alloc&) {
    // It ends all the same.
  }
}

// An event of the seq; one that ends it is its last.
void EngineCore::tell(Sequence& seq, SampleResult result, FinishReason finish) {
  const bool first_token = result.token >= 0 && seq.n_made() == 1;
  const bool first = first_token || seq.n_made() == 0;
  const int64_t began = seq.began_ns ? seq.began_ns : options_.now_ns();
  events_.push_back({.request = seq.id - seq.choice_of_request(),
                     .choice = seq.choice_of_request(),
                     .sample = std::move(result),
                     .finish = finish,
                     .reused = first_token ? seq.reused : 0,
                     .queued_seconds = first ? 1e-9 * static_cast<double>(began - seq.came_ns) : 0});
  if (finish == FinishReason::kNone) return;
  seq.finish = finish;
  ended_.push_back(&seq);
}

void EngineCore::sweep() {
  for (Sequence* seq : ended_) erase(*seq);
  ended_.clear();
}

void EngineCore::erase(Sequence& seq) {
  leave(seq);
  for (Sequence* other : seq.followers) {
    other->first = nullptr;
    if (other->state() == SeqState::kHeldBack) scheduler_.release(*other);
  }
  if (seq.first) std::erase(seq.first->followers, &seq);
  // A step in flight may still write rows of it. Its pages can go to others all the same: their rows are written by
  // later steps, and what has an address in the prefix cache is never written again.
  Flight* last = nullptr;  // that names it
  flights_.each_in_flight([&](Flight& flight) {
    const auto it = std::ranges::find(flight.plan.items, &seq, &Plan::Item::seq);
    if (it == flight.plan.items.end()) return;
    if (flight.work.undrawn) withdraw(flight, seq);
    it->seq = nullptr;
    last = &flight;
  });
  Flight* next = flights_.next();
  if (seq.state() != SeqState::kNew) scheduler_.remove(seq, next ? &next->plan : nullptr);
  if (seq.prefix_root >= 0) prefix_->release(seq.prefix_root);
  std::unique_ptr<Sequence> own = std::move(seqs_.extract(seq.id).mapped());
  if (last) {
    last->gone.push_back(std::move(own));
  } else {
    free_seq(std::move(own));
  }
}

// The task of its masks holds the request too, so it goes last.
void EngineCore::free_seq(std::unique_ptr<Sequence> seq) {
  std::shared_ptr<MaskTask> masking = std::move(seq->masking);
  seq.reset();
  drop(std::move(masking));
}

// The step has ended: nothing reads what they left any more.
void EngineCore::free_gone(Flight& flight) {
  for (std::unique_ptr<Sequence>& seq : flight.gone) free_seq(std::move(seq));
  flight.gone.clear();
}

}  // namespace ingot
