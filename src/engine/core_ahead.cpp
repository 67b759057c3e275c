// While the model runs: the next step is planned, and launched before the running one has ended where the host is not
// needed in between, so that the device never waits for it. The ids of the tokens that the step before makes stay on
// the device; all else of the next step is known, but for masks, which come before its tokens are drawn
// (core_masks.cpp).
#include <algorithm>

#include "engine/core.h"
#include "engine/fill.h"
#include "engine/sampler.h"

namespace ingot {
namespace {

// Its rows need nothing of a token that is not known yet but its id, and the step before makes that.
bool needs_an_id_alone(const Plan::Item& item, const Flight& in_front) {
  const Sequence& seq = *item.seq;
  const Request& r = *seq.request;
  if (r.drafter || r.on_logits || r.on_hidden) return false;
  return seq.awaited == 0 || (seq.result_step == in_front.number && !reads_history(r.sampling));
}

// Of a step in flight: what is reported of it, and how many rows of a draft stand, is known when it has ended. Until
// then nobody with a draft is planned, and should not be left behind by the others.
bool holds_up(const Plan::Item& item) {
  return item.seq && (item.guesses > 0 || item.seq->request->on_logits || item.seq->request->on_hidden);
}

}  // namespace

// The events of the step before are handed out, and the step that runs gets its masks; then what follows is planned,
// and launched as far as it may be. Nobody is planned behind a step that is not drawn: who is late there runs again.
void EngineCore::prepare() {
  if (while_running) while_running();
  draw(flights_.front());
  for (Flight* next = flights_.next(); next && !flights_.newest().work.undrawn; next = flights_.next()) {
    plan_ahead(*next);
    if (!may_launch(*next) || !launch_ahead(*next)) return;
  }
}

// As if every token were there already and ended nothing.
void EngineCore::plan_ahead(Flight& next) {
  try {
    if (goes_ahead() && options_.stages == 1) foresee();
    scheduler_.extend(next.plan, goes_ahead());
    fill_rows(next.plan, limits_.page_rows, next.work);
    next.plan.changed = false;
  } catch (const std::bad_alloc&) {
    next.plan.changed = true;
  }
}

// Those who come meanwhile wait one step longer: not for a step that reads prompts alone, which can be a long one, but
// where a stage has nothing else to do. And nobody may have been set back, nor be looked for who made a step fail.
bool EngineCore::may_launch(const Flight& next) {
  if (!goes_ahead() || scheduler_.n_suspects() > 0) return false;
  const Plan& plan = next.plan;
  if (plan.rows == 0 || (plan.rows == plan.prompt_rows && options_.stages == 1)) return false;
  if (plan.changed || plan.preempted || plan.kept > 0) return false;
  // What is reported, and a second run of the head, are read from memory that the next step writes.
  const auto of_head = static_cast<size_t>(limits_.logits);
  size_t sampled = 0;
  for (const Plan::Item& item : plan.items) sampled += 1 + item.seq->draft.size();
  if (sampled > of_head) return false;
  bool waits = false;
  flights_.each_in_flight([&](const Flight& flight) {
    waits = waits || flight.work.logits.size() > of_head || std::ranges::any_of(flight.plan.items, holds_up);
  });
  const Flight& in_front = flights_.newest();
  return !waits && std::ranges::all_of(plan.items, [&](const auto& item) { return needs_an_id_alone(item, in_front); });
}

bool EngineCore::launch_ahead(Flight& next) {
  try {
    for (const Plan::Item& item : next.plan.items) fill_mask(item, options_.vocab);
  } catch (const std::bad_alloc&) {
    return false;  // after the running step then
  }
  ask_masks(next, 0);
  sweep();
  if (next.plan.items.empty()) return false;
  const bool launched = launch(next);
  stats_.ahead += launched;
  return launched;
}

}  // namespace ingot
