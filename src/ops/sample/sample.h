// Chooses the next token of each row from its logits. In this order:
//   1. penalties in f32, over the last penalty_last_n tokens of the row's history: repetition divides a
//      positive logit and multiplies any other, once for each token seen; then frequency · count + presence
//      is subtracted for the tokens of the output (not of the prompt);
//      DRY, over the last dry_last_n: a token that would prolong the longest earlier match of the history's
//      end, `match` tokens long, loses multiplier · base^(match - allowed length) when match is at least the
//      allowed length. A match does not reach back over a breaker, and a breaker is never penalized;
//   2. logit bias (a bias of +inf leaves only the tokens that have one), then the mask of a constraint;
//   3. greedy when temperature is 0: the largest logit, the lowest id where several are equal;
//   4. x = (logit - largest logit) / temperature, in f64; then top-k, typical, top-p, min-p and XTC, each over
//      what the one before it left and at least one token. The mass of a set is its sum of exp(x):
//        top-k    the k largest logits;
//        typical  those nearest in surprise to the entropy, the fewest that reach typical_p of the mass;
//        top-p    the largest logits, the fewest that reach top_p of the mass;
//        min-p    those with x - largest x >= log(min_p);
//        XTC      with xtc_probability, where two or more have at least xtc_threshold of the mass: all of
//                 these but the least likely go;
//      where tokens are equal in this, lower ids come first;
//   5. the draw: the largest of  x + Gumbel noise,  the noise made by a counter-based generator keyed by
//      (seed, choice, position, draw) and the token's id (counter_rng.h). So the same seed gives the same
//      text whatever the batch, the order of the candidates or the device.
// Logprobs are of the model's own distribution, before 1. A row whose logits hold NaN or +inf, or nothing
// but -inf after 2, gets token -1 and no logprobs; other rows do not notice. Ids outside [0, V) in a
// history or a bias are passed over, and tokens beyond the end of a mask are not allowed.
// REQUIRES: parameters that are all finite but the biases, and temperature >= 0, repetition_penalty > 0,
// dry_multiplier >= 0, dry_base > 0; what requests may ask for is less (sampling_params.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/ctx.h"
#include "ops/sample/sampling_params.h"

namespace ingot {

struct SampleRow {
  const SamplingParams* params = nullptr;
  std::span<const int32_t> history;  // prompt and output so far, the last token last
  int64_t prompt_tokens = 0;         // of them; presence and frequency count the output only
  std::span<const uint32_t> mask;    // bit v of word v / 32: token v is allowed; empty: all are
  int32_t choice = 0;                // which of several answers to one request
  int32_t position = 0;              // of the token that is drawn
};

struct TokenLogprob {
  int32_t token = -1;
  float logprob = 0;
};

struct SampleResult {
  int32_t token = -1;
  float logprob = 0;              // where logprobs were asked for
  std::vector<TokenLogprob> top;  // the most likely first
};

struct Sample {
  Tensor logits;                    // [L, V]
  std::span<const SampleRow> rows;  // [L]
  std::span<SampleResult> results;  // [L]

  template <class F>
  void each(F&& f) {
    f.in(logits);
  }
  Cost cost(const Shape& s) const { return {s.bytes(logits), 8.0 * static_cast<double>(s.count(logits))}; }
};

namespace ref {
void run(const Sample& op, Ctx& ctx);
}
namespace cpu {
void prepare(Sample& op, Prepare& p);
void run(const Sample& op, Ctx& ctx);
}  // namespace cpu

}  // namespace ingot
