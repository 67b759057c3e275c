// What a model says about given tokens: logits of every position, and the log-likelihood of a text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "app/open_engine.h"

namespace ingot {

// log(sum(exp(x))), in double.
double log_sum_exp(std::span<const float> x);

// Index of the largest; the lowest where several are equal.
int arg_max(std::span<const float> x);

// Runs the tokens through the engine and calls `row` with each position's logits, in order, from `from` on; a thread
// of the engine calls it while this one waits.
// Throws Error where the engine refuses them.
void for_each_logits(Engine& engine, std::vector<int32_t> tokens, int from,
                     const std::function<void(int position, std::span<const float> logits)>& row);

// -log p(tokens[i] | tokens[0 … i)) summed over i in [from, to). REQUIRES: 1 <= from <= to <= tokens.size().
double negative_log_likelihood(Engine& engine, const std::vector<int32_t>& tokens, int from, int to);

}  // namespace ingot
