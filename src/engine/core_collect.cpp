// What becomes of a step that has ended: its tokens are taken, full pages get addresses, windows move on; or it failed.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/core.h"

namespace ingot {

void EngineCore::collect(Flight& flight) {
  const Plan& plan = flight.plan;
  if (!flight.idled) {
    pace_.measured(plan.rows - plan.prompt_rows, plan.prompt_rows, meter_.last().seconds);
    const double row = meter_.last().seconds / std::max(1, plan.rows);
    row_seconds_ = row_seconds_ > 0 ? 0.9 * row_seconds_ + 0.1 * row : row;
  }
  scheduler_.ran(plan.rows, meter_.last().seconds, flight.idled);
  charge_those_that_left();
  if (damaged && damaged()) {
    for (const Plan::Item& item : plan.items) {
      if (item.seq) end(*item.seq, FinishReason::kDamaged);
    }
  } else {
    size_t result = 0;
    for (const Plan::Item& item : plan.items) {
      stats_.orphans += item.seq == nullptr;
      if (item.seq) guard(*item.seq, [&] { collect_item(flight, item, result); });
      result += static_cast<size_t>(item.samples);
    }
    end_those_that_threw(flight);
  }
  sweep();
  free_gone(flight);
  flights_.retire();
  if (flying() && flights_.newest().work.undrawn) ask_masks(flights_.newest(), 1);
  bool left = false;
  scheduler_.tenants().each_waiting([&](const Sequence& seq) { left |= seq.came_ns <= flight.launched_ns; });
  admission_.tell({.seconds = meter_.last().seconds,
                   .at = 1e-9 * static_cast<double>(meter_.now()),
                   .left = left,
                   .read = scheduler_.n_read() - std::exchange(told_read_, scheduler_.n_read()),
                   .begun = scheduler_.n_begun() - std::exchange(told_begun_, scheduler_.n_begun()),
                   .row_seconds = pace_.row_seconds()});
  tell_admission();
}

// Whose report of logits or hidden states threw.
void EngineCore::end_those_that_threw(const Flight& flight) {
  const StepWork& work = flight.work;
  const auto end_owner = [&](int row) {
    const int s = work.batch.seq[static_cast<size_t>(row)];
    Sequence* const seq = flight.plan.items[static_cast<size_t>(s)].seq;
    if (seq) end(*seq, FinishReason::kError);
  };
  for (size_t i = 0; i < work.logits.size(); ++i) {
    if (work.threw[i]) end_owner(work.logits[i].row);
  }
  for (const HiddenRow& row : work.hidden) {
    if (row.threw) end_owner(row.row);
  }
}

void EngineCore::collect_item(Flight& flight, const Plan::Item& item, size_t first) {
  Sequence& seq = *item.seq;
  const std::span<const int32_t> draft = flight.plan.draft_of(item);
  int rows = item.begin + item.rows;  // that are in the cache for good: not those of a step that was launched ahead
  seq.reported = std::max(seq.reported, rows);
  if (item.late) {
    if (seq.running()) settle(seq, rows - item.samples);
    return;
  }
  seq.awaited -= item.samples > 0 ? 1 : 0;
  seq.guessing = seq.guessing && item.guesses == 0;
  int standing = 0;
  for (int i = 0; i < item.samples; ++i) {
    SampleResult& result = flight.work.results[first + static_cast<size_t>(i)];
    const int32_t token = result.token;
    if (token < 0) {
      // Whatever made the logits no numbers may be in its pages: nobody shall find them again.
      if (prefix_ && seq.running()) prefix_->forget(seq.pages);
      return end(seq, FinishReason::kError);
    }
    if (!take_token(seq, std::move(result))) break;
    // A row stands as long as the guess that it was computed for came true.
    if (i + 1 >= item.samples || draft[static_cast<size_t>(i)] != token) break;
    ++standing;
  }
  stats_.accepted += standing;
  if (!seq.running()) return;  // preempted meanwhile: it has the token and nothing in the cache
  if (!draft.empty()) {
    const int refused = item.samples - 1 - standing;
    rows -= refused;
    seq.kv_len -= refused;
    seq.paid = std::min(seq.paid, seq.kv_len);  // guesses that were wrong are paid, and what takes their place too
    pages_.truncate(seq.pages, seq.kv_len);
    if (options_.has_state) {
      next_states().push_back({.kind = StateOp::Kind::kAccept, .to = seq.state_slot, .rows = item.rows - refused});
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
  if (rows >= seq.n_prompt()) release_choices(seq);
}

// What happens to states before the next step. There is a next one: with states no step is launched ahead.
std::vector<StateOp>& EngineCore::next_states() {
  Flight* next = flights_.next();
  CHECK(next, "{} steps of a model with states are in flight", flights_.in_flight());
  return next->plan.states;
}

void EngineCore::keep_state(Sequence& seq) {
  if (seq.prefix_node < 0 || seq.kv_len == 0 || seq.kv_len != seq.addressed * pages_.page_rows()) return;
  std::vector<StateOp>& states = next_states();
  states.reserve(states.size() + 1);
  const int slot = prefix_->snapshot(seq.prefix_node);
  if (slot >= 0) states.push_back({.kind = StateOp::Kind::kCopy, .from = seq.state_slot, .to = slot});
}

// The prompt is in the cache: the other choices may share it.
void EngineCore::release_choices(Sequence& seq) {
  for (Sequence* other : seq.followers) {
    if (other->state() == SeqState::kHeldBack) scheduler_.release(*other);
  }
}

// Appends the token, and says whether the seq goes on. A token that is in the list has an event: what may throw comes
// before.
bool EngineCore::take_token(Sequence& seq, SampleResult result) {
  const Request& request = *seq.request;
  const int32_t token = result.token;
  FinishReason finish = FinishReason::kNone;
  TokenConstraint* const constraint = seq.masking ? &seq.masking->constraint() : nullptr;
  const bool is_end = std::ranges::find(request.end_tokens, token) != request.end_tokens.end();
  const bool complete = constraint && paid_by(seq, [&] {
                          constraint->advance(token);
                          return !is_end && constraint->complete();
                        });
  if (is_end || complete) {
    finish = FinishReason::kStop;
  } else if (seq.n_tokens() + 1 >= seq.longest(limits_.context)) {
    finish = FinishReason::kLength;
  }
  seq.tokens.push_back(token);
  ++stats_.tokens;
  if (seq.n_made() == 1) {
    stats_.prompt_tokens += seq.n_prompt();
    stats_.reused_tokens += seq.reused;
  }
  stats_.finished += finish != FinishReason::kNone;
  tell(seq, std::move(result), finish);
  return finish == FinishReason::kNone;
}

// The step failed, and with it whatever its seqs had in memory. They are computed again one by one; a seq that fails
// once more when it is alone is the cause.
void EngineCore::fail(Flight& flight) {
  ++stats_.failed_steps;
  // What was launched after it has read what it left behind.
  for (int behind = 1; behind < flights_.in_flight(); ++behind) model_.wait();
  flights_.each([&](const Flight& lost) {
    for (const StateOp& op : lost.plan.states) {
      if (op.kind == StateOp::Kind::kCopy && op.to >= limits_.seqs) prefix_->forget_snapshot(op.to);
    }
    scheduler_.unplan(lost.plan);
    for (const Plan::Item& item : lost.plan.items) {
      if (item.seq) item.seq->awaited = 0, item.seq->guessing = false;
    }
  });
  const std::vector<Plan::Item>& items = flight.plan.items;
  const bool guilty = items.size() == 1 && items[0].seq && items[0].seq->suspect > 0;
  if (guilty) end(*items[0].seq, FinishReason::kError);
  scheduler_.restart(flight.plan);
  sweep();
  flights_.each([&](Flight& lost) { free_gone(lost); });
  flights_.clear();
}

}  // namespace ingot
