// From a plan to the flat arrays of a step.
#pragma once

#include "engine/model/step_model.h"
#include "engine/schedule/scheduler.h"

namespace ingot {

// Of a mask with a bit for each token.
inline size_t mask_words(int vocab) { return (static_cast<size_t>(vocab) + 31) / 32; }

// All but the tokens: rows, positions, slots and page tables. It may run before the step before has ended.
void fill_rows(const Plan& plan, int page_rows, StepWork& work);

// The masks of one seq's rows that will be sampled. Throws what its constraint throws, and ConstraintError where that
// leaves no token.
void fill_masks(const Plan::Item& item, int vocab);

// The tokens of the rows, which rows are sampled and how; and what is to be copied before. Sets item.samples, and where
// each seq finds its result. A token that the running step makes is named as StepWork says.
void fill_tokens(Plan& plan, int vocab, StepWork& work);

}  // namespace ingot
