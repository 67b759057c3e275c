// Sample on a CUDA device. The host tells the device each row's parameters and which logits change; everything that
// reads a row's logits happens there, without a sort.
//
// The same tokens as every other version of Sample for the same seed. The one thing that is not bit for bit the
// reference's is the mass of a set: weights exp(x) have 24 bits and their sums are exact (integers), so that the border
// of top-p, typical and XTC may fall one token further where a sum is within about 1e-6 of the wanted mass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/cuda/ctx.h"
#include "ops/sample/sample.h"
#include "ops/sample/sample_changes.h"

namespace ingot::cuda {

// What the kernels read of a row.
struct SampleArgs {
  enum class Path : int32_t { kGreedy, kDraw, kTruncate };

  uint64_t seed;
  int32_t choice, position;
  float temperature, top_p, min_p, typical_p, xtc_probability, xtc_threshold;
  int32_t top_k;
  Path path;
  int32_t n_top;      // how many of the most likely are wanted beside the logprob, -1: no logprobs
  int32_t top_begin;  // where they go
  int32_t adjusted;   // row of the adjusted logits, -1: its logits do not change
  int32_t changes_begin, changes_end;
  int32_t mask_begin, mask_words;  // -1 words: no mask
  int32_t only_changed;            // the tokens of the changes alone are left
};

struct SampledToken {
  int32_t token;
  float logprob;
};

// Made once; its buffers are sized for the limits and grow only where a step has more penalized tokens or logprobs than
// is usual, or where a copy of all logits is too large to be made ahead. One thread. Two launches may be in flight:
// collect() gives the older one's results.
class DeviceSampler {
 public:
  // REQUIRES: 0 < max_rows < 65536, 0 < vocabulary <= 2^20.
  DeviceSampler(int max_rows, int64_t vocabulary);
  ~DeviceSampler();
  DeviceSampler(DeviceSampler&&) noexcept;
  DeviceSampler& operator=(DeviceSampler&&) = delete;

  // Both of what follows.
  void launch(std::span<const SampleRow> rows, const Tensor& logits, Ctx& ctx);
  // Gives ctx.stream, or `copies` where that is given, the copy of what the rows want; may come long before the logits.
  // `rows` may go afterwards. In another stream than ctx's the caller lets choose() come after the copy.
  void upload(std::span<const SampleRow> rows, Ctx& ctx, StreamRef copies = nullptr);
  // Gives ctx.stream the choice of their tokens: row r of logits is rows[r]'s. Uses ctx.tickets, no scratch.
  void choose(const Tensor& logits, Ctx& ctx);
  // The results of the oldest launch that has not been collected. REQUIRES: the stream has come to its end.
  void collect(std::span<SampleResult> results);
  // What was uploaded or launched is not collected. REQUIRES: likewise.
  void forget();

  // [max_rows] on the device: the tokens that the newest launch chooses, -1 for rows that cannot be used. The address
  // never changes.
  const int32_t* tokens() const;

 private:
  struct State;
  State* state_;
};

}  // namespace ingot::cuda
