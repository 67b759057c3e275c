// Steps 1 and 2 of Sample on the CPU: what changes a row's logits before anything is chosen.
#pragma once

#include "ops/sample/sample.h"

namespace ingot::cpu {

// Whether the row's parameters change its logits at all.
bool adjusts_logits(const SampleRow& row);

// Penalties, bias and mask, in place on logits[0, n). `counts` is scratch of n elements.
void adjust_logits(float* logits, int64_t n, const SampleRow& row, int32_t* counts);

// For each token that followed an earlier occurrence of the history's end, the longest such match: pairs
// (token, match), one for each token, match >= max(allowed, 1). In linear time. `window` is what DRY sees.
std::vector<std::pair<int32_t, int32_t>> dry_matches(std::span<const int32_t> window, std::span<const int32_t> breakers,
                                                     int allowed);

}  // namespace ingot::cpu
