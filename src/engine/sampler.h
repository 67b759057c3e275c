// From seqs to rows of the sample op, and the check of what callers ask for.
#pragma once

#include <string>
#include <vector>

#include "engine/sequence.h"
#include "ops/sample/sample.h"

namespace ingot {

// The row of the sample op that draws the token at `position`; `history` are those before it, empty where they are not
// known and nothing reads them.
SampleRow sample_row(const Sequence& seq, std::span<const int32_t> history, int position);

// Whether the choice of a token depends on more of those before it than the model's answer: such a seq cannot be
// sampled before its last token is known.
bool reads_history(const SamplingParams& params);

// Empty where the parameters are in range for a vocabulary of `vocab`; otherwise what is wrong, naming the field.
std::string check_sampling(const SamplingParams& params, int vocab);

}  // namespace ingot
