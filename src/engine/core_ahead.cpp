// How the next step is launched before the running one has ended: the device then never waits for the host. The ids of
// the tokens that the running step makes stay on the device; all else of the next step is known.
#include <algorithm>

#include "engine/core.h"
#include "engine/fill.h"
#include "engine/sampler.h"

namespace ingot {
namespace {

// Its rows need nothing of a token that is not known yet but its id.
bool needs_an_id_alone(const Plan::Item& item) {
  const Request& r = *item.seq->request;
  return !r.drafter && !r.constraint && !r.on_logits && !r.on_hidden &&
         (item.seq->awaited == 0 || !reads_history(r.sampling));
}

// Of the running step: what is reported of it, and how many rows of a draft stand, is known when it has ended. Until
// then nobody with a draft is planned, and should not be left behind by the others.
bool holds_up(const Plan::Item& item) {
  return item.seq && (!item.draft.empty() || item.seq->request->on_logits || item.seq->request->on_hidden);
}

}  // namespace

// Those who come meanwhile wait one step longer: not for a step that reads prompts alone, which can be a long one. And
// nobody may have been set back, nor be looked for who made a step fail.
bool EngineCore::may_launch_next() const {
  if (!run_ahead || !model_.runs_ahead() || options_.has_state || scheduler_.n_suspects() > 0) return false;
  const Plan& running = plans_[current_];
  const Plan& next = plans_[1 - current_];
  if (next.rows == next.prompt_rows || next.changed || next.preempted || next.kept > 0) return false;
  // What is reported, and a second run of the head, are read from memory that the next step writes.
  const auto of_head = static_cast<size_t>(limits_.logits);
  if (works_[current_].logits.size() > of_head || next.items.size() > of_head) return false;
  return std::ranges::none_of(running.items, holds_up) && std::ranges::all_of(next.items, needs_an_id_alone);
}

void EngineCore::launch_next() {
  if (!may_launch_next()) return;
  try {
    for (const Plan::Item& item : next_plan().items) fill_masks(*item.seq, options_.vocab);
  } catch (const std::bad_alloc&) {
    return;  // after the running step then
  }
  stats_.ahead += launch(1 - current_);
}

}  // namespace ingot
