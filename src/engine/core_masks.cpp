// How the masks of constraints come to a step. They are asked for as soon as the tokens before them are known, made
// beside this thread while the model runs, and handed over when the step's tokens are to be drawn. A mask that is late
// then keeps nobody waiting: what is drawn for its seq is discarded, and its last rows run again in the next step.
#include <algorithm>

#include "base/check.h"
#include "engine/core.h"
#include "engine/fill.h"

namespace ingot {
namespace {

// Of a row whose draw is discarded: no token is allowed, and the row makes none.
constexpr uint32_t kNoToken[1] = {0};
const SamplingParams kDiscarded;

// Guesses that a step is given ahead, after the token that it awaits: one would make no fewer steps, since the step
// behind it waits until it is known how many stand.
constexpr size_t kLeastForeseen = 2;

// It draws tokens under the masks of a constraint.
bool is_masked(const Plan::Item& item) { return item.seq && item.seq->masking && item.samples > 0; }

}  // namespace

// Of the flight's seqs that await so many tokens, which are those of the flight itself: all before are known.
void EngineCore::ask_masks(const Flight& flight, int awaited) {
  for (const Plan::Item& item : flight.plan.items) {
    if (!item.seq || !item.seq->masking || item.seq->awaited != awaited) continue;
    Sequence& seq = *item.seq;
    if ((awaited > 0 ? item.samples : samples_of(item)) == 0) continue;
    guard(seq, [&] { ask_mask(seq, awaited > 0 ? flight.plan.draft_of(item) : std::span<const int32_t>(seq.draft)); });
  }
}

// What was asked for before and still holds is not asked for again. One that cannot go on ends at once where that is
// known at once.
void EngineCore::ask_mask(Sequence& seq, std::span<const int32_t> draft) {
  MaskTask& task = *seq.masking;
  if (!task.covers(seq.n_made(), draft)) {
    while (task.under_way()) options_.masks->wait();
    task.ask(seq.n_made(), draft, goes_ahead() ? config_.max_draft : 0, seq.tenant->time);
    if (options_.masks) {
      options_.masks->post(seq.masking);
    } else {
      task.run();
      task.finish(0);
    }
  }
  if (!task.under_way()) task.check();
}

// All masks of a step that is about to be launched are there.
bool EngineCore::has_masks(const Plan& plan) const {
  return std::ranges::all_of(plan.items, [](const Plan::Item& item) {
    if (!is_masked(item)) return true;
    const Sequence& seq = *item.seq;
    return seq.awaited == 0 && seq.masking->asked(seq.n_made()) && !seq.masking->under_way() && !seq.masking->failed();
  });
}

// Until all masks are there, or the model has nothing more to do and somebody could go on without them. A seq with
// recurrent state cannot run a row again.
void EngineCore::await_masks(Flight& flight) {
  for (;;) {
    int late = 0, others = 0;
    for (const Plan::Item& item : flight.plan.items) {
      if (item.seq) ++(is_masked(item) && item.seq->masking->under_way() ? late : others);
    }
    if (late == 0 || (others > 0 && !options_.has_state && model_.body_ended())) return;
    flight.idled |= model_.body_ended();
    options_.masks->wait();
  }
}

void EngineCore::draw(Flight& flight) {
  if (!flight.work.undrawn) return;
  await_masks(flight);
  hand_masks(flight);
  sweep();
  flight.work.undrawn = false;
  model_.draw(flight.work);
}

void EngineCore::hand_masks(Flight& flight) {
  size_t first = 0;
  for (Plan::Item& item : flight.plan.items) {
    const size_t at = first;
    first += static_cast<size_t>(item.samples);
    if (!is_masked(item)) continue;
    Sequence& seq = *item.seq;
    MaskTask& task = *seq.masking;
    CHECK(task.asked(seq.n_made()), "nobody asked for the mask of seq {}", seq.id);
    if (task.under_way()) {
      put_off(flight, item, at);
      continue;
    }
    charge_seconds(seq, task.take_seconds());
    guard(seq, [&] {
      task.check();
      for (size_t i = 0; i < static_cast<size_t>(item.samples); ++i) {
        const std::span<const uint32_t> mask = task.mask(i);
        flight.work.samples[at + i].mask = mask.empty() ? std::span<const uint32_t>(kNoToken) : mask;
      }
    });
  }
}

// As if its last rows had not been in the step, which still writes them: whoever is given their pages writes them
// later.
void EngineCore::put_off(Flight& flight, Plan::Item& item, size_t first) {
  Sequence& seq = *item.seq;
  CHECK(seq.running() && seq.kv_len == item.begin + item.rows, "seq {} has gone on without its mask", seq.id);
  for (size_t i = 0; i < static_cast<size_t>(item.samples); ++i) flight.work.samples[first + i].mask = kNoToken;
  const std::span<const int32_t> draft = flight.plan.draft_of(item);
  seq.draft.assign(draft.begin(), draft.end());
  item.late = true;
  --seq.awaited;
  seq.guessing = false;
  seq.kv_len -= item.samples;
  seq.paid = std::min(seq.paid, seq.kv_len);
  pages_.truncate(seq.pages, seq.kv_len);
  ++stats_.put_off;
}

// The seq goes: what the step draws for it is discarded, and asks nothing of what it leaves.
void EngineCore::withdraw(Flight& flight, const Sequence& seq) {
  size_t first = 0;
  for (const Plan::Item& item : flight.plan.items) {
    for (size_t i = 0; item.seq == &seq && i < static_cast<size_t>(item.samples); ++i) {
      SampleRow& row = flight.work.samples[first + i];
      row.params = &kDiscarded;
      row.history = {};
      row.mask = kNoToken;
    }
    first += static_cast<size_t>(item.samples);
  }
}

void EngineCore::charge_seconds(Sequence& seq, double seconds) {
  if (seconds > 0 && row_seconds_ > 0) scheduler_.charge_work(seq, seconds / row_seconds_);
}

void EngineCore::leave(const Sequence& seq) {
  if (!seq.masking || !seq.masking->under_way()) return;
  seq.masking->abandon();
  try {
    left_.emplace_back(seq.masking, seq.request->tenant);
  } catch (const std::bad_alloc&) {
    // It is not paid for.
  }
}

void EngineCore::charge_those_that_left() {
  for (size_t i = left_.size(); i-- > 0;) {
    auto& [masking, tenant] = left_[i];
    if (masking->under_way()) continue;
    const double seconds = masking->take_seconds();
    if (seconds > 0 && row_seconds_ > 0) scheduler_.charge_work(tenant, seconds / row_seconds_);
    drop(std::move(masking));
    left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Beside this thread where others make masks.
void EngineCore::drop(std::shared_ptr<MaskTask> masking) {
  if (masking && options_.masks) options_.masks->drop(std::move(masking));
}

// Before the next step is planned ahead: a seq whose known state forces the token that it awaits and further ones
// brings those as guesses. All others are planned without.
void EngineCore::foresee() {
  int room = room_for_guesses();
  for (Sequence* seq : scheduler_.running()) {
    if (!seq->masking || seq->awaited != 1 || seq->guessing || seq->request->drafter) continue;
    if (!seq->drafts() || seq->state() == SeqState::kPlanned || !seq->decoding()) continue;
    seq->draft.clear();
    const MaskTask& task = *seq->masking;
    if (task.under_way() || !task.asked(seq->n_made()) || task.foreseen().empty()) continue;
    const int most = std::min({config_.max_draft, seq->longest(limits_.context) - seq->n_tokens() - 2, room});
    const std::span<const int32_t> guesses = task.foreseen().subspan(1);
    if (guesses.size() < kLeastForeseen || most < static_cast<int>(kLeastForeseen)) continue;
    const size_t n = std::min(guesses.size(), static_cast<size_t>(most));
    seq->draft.assign(guesses.begin(), guesses.begin() + static_cast<std::ptrdiff_t>(n));
    room -= static_cast<int>(n);
  }
}

// Guesses that a step may have. Where steps are launched ahead a second run of the head would stop that.
int EngineCore::room_for_guesses() const {
  return goes_ahead() ? std::max(0, limits_.logits - scheduler_.n_running()) : limits_.rows;
}

}  // namespace ingot
