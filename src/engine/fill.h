// From a plan to the flat arrays of a step.
#pragma once

#include "engine/model/step_model.h"
#include "engine/schedule/scheduler.h"

namespace ingot {

// All but the tokens: rows, positions, slots and page tables. It may run before the step before has ended.
void fill_rows(const Plan& plan, int page_rows, StepWork& work);

// Rows of it that make a token.
int samples_of(const Plan::Item& item);

// The mask of a seq without a constraint: no end before min_tokens. Those of constraints come later (MaskTask).
void fill_mask(const Plan::Item& item, int vocab);

// The tokens of the rows, which rows are sampled and how; and what is to be copied before. Sets item.samples, and where
// each seq finds its result. A token that the running step makes is named as StepWork says.
void fill_tokens(Plan& plan, int vocab, StepWork& work);

}  // namespace ingot
