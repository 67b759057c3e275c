// The kernels behind DeviceSampler, and what they hand to each other.
#pragma once

#include "cuda/select.cuh"
#include "ops/counter_rng.h"
#include "ops/sample/sample_cuda.h"

namespace ingot::cuda {

// A row is scanned in parts of a fixed length, so that its sums do not depend on how many rows there are.
inline constexpr int kPartLogits = 8192;
inline constexpr int kPartThreads = 256;

// What one part of a row, and then the whole of it, was found to hold.
struct Scanned {
  uint64_t best;     // order_key() of the largest finite logit, after penalties, bias and mask; 0: none
  double log_sum;    // of exp() of the model's own logits, where logprobs are wanted; in a part: above `largest`
  float least;       // of the finite logits
  float largest;     // of the model's own
  int32_t unusable;  // a logit is NaN or +inf; for the row also where no token is left
};
struct Drawn {
  double score;
  int32_t token;
};

// Everything on the device, one array entry per row unless said otherwise.
struct SampleMemory {
  const float* logits;  // [L] rows of `stride`
  int64_t stride;
  float* adjusted;  // [.., V] rows of those whose logits change
  const SampleArgs* args;
  const TokenChange* changes;
  const uint32_t* masks;
  Scanned* parts;  // [L, parts of a row]
  Drawn* drawn;    // [L, parts of a row]
  Scanned* scanned;
  SampledToken* results;
  TokenLogprob* tops;
  int32_t* tokens;
  uint32_t* tickets;
  int vocabulary;
  int n_parts;  // of a row
  bool wide;    // rows begin at multiples of 16 bytes

  __device__ const float* raw(int64_t r) const { return logits + r * stride; }
  // The logits that are chosen from.
  __device__ const float* row(int64_t r) const {
    const int64_t at = args[r].adjusted;
    return at < 0 ? raw(r) : adjusted + at * padded();
  }
  // Adjusted rows begin at multiples of 16 bytes.
  __host__ __device__ int64_t padded() const { return (static_cast<int64_t>(vocabulary) + 3) / 4 * 4; }
  __device__ bool row_wide(int64_t r) const { return args[r].adjusted >= 0 || wide; }
  // By one thread, once for each row.
  __device__ void finish(int64_t r, int32_t token) const {
    SampledToken result{token, 0};
    if (token >= 0 && args[r].n_top >= 0)
      result.logprob = static_cast<float>(static_cast<double>(raw(r)[token]) - scanned[r].log_sum);
    results[r] = result;
    tokens[r] = token;
  }
};

// Step 5 of Sample for one thread: the best of the candidates that it has seen.
struct Drawer {
  const CounterRng rng;
  const double max, temperature;
  const float max_f, temperature_f;
  double score = -INFINITY;
  int32_t token = -1;

  __device__ Drawer(const SampleArgs& a, float largest)
      : rng(a.seed, a.choice, a.position, Draw::kToken),
        max(largest),
        temperature(a.temperature),
        max_f(largest),
        temperature_f(a.temperature) {}

  __device__ double x_of(float logit) const { return (static_cast<double>(logit) - max) / temperature; }

  // The noise is between -3.61 (of 2^-53) and 36.74 (of 1 - 2^-53), so that nothing more than 40.4 below a candidate
  // can win. Of the others most are refused by their random bits: to win by noise above d, -log(u) must be below
  // exp(-d) <= 2^-k for k = floor(d / log 2), hence 1 - u too: the upper k bits of u are ones. d is taken in f32, less
  // than it is by far more than its rounding.
  __device__ void consider(float logit, int32_t id) {
    const float x_f = (logit - max_f) / temperature_f;
    const float d = static_cast<float>(score) - x_f;
    if (d >= 42.0f) return;
    const uint64_t bits = rng.bits(static_cast<uint32_t>(id));
    const float k = d * 1.4426950f - 1e-3f - 1e-6f * fabsf(x_f);
    if (k >= 1.0f && ~bits >> (64 - static_cast<int>(k)) != 0) return;
    take(score_of(logit, bits), id);
  }
  // Whatever came before.
  __device__ void begin(float logit, int32_t id) {
    score = score_of(logit, rng.bits(static_cast<uint32_t>(id)));
    token = id;
  }
  __device__ double score_of(float logit, uint64_t bits) const {
    return x_of(logit) - log(-log(CounterRng::unit(bits)));
  }
  __device__ void take(double other, int32_t id) {
    if (other > score || (other == score && id < token)) {
      score = other;
      token = id;
    }
  }
};

// The best over the block, in thread 0. `scores` and `ids`: 32 of each in shared memory.
__device__ inline void block_best(Drawer& d, double* scores, int32_t* ids) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int step = 16; step > 0; step >>= 1) {
    const double score = __shfl_xor_sync(0xffffffffu, d.score, step);
    const int32_t id = __shfl_xor_sync(0xffffffffu, d.token, step);
    d.take(score, id);
  }
  if (lane == 0) {
    scores[warp] = d.score;
    ids[warp] = d.token;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < static_cast<int>(blockDim.x) / 32; ++w) d.take(scores[w], ids[w]);
}

void launch_adjust(const Ctx& ctx, const SampleMemory& m, int64_t rows);
void launch_scan(const Ctx& ctx, const SampleMemory& m, int64_t rows);
void launch_draw(const Ctx& ctx, const SampleMemory& m, int64_t rows);
void launch_truncate(const Ctx& ctx, const SampleMemory& m, int64_t rows);
void launch_tops(const Ctx& ctx, const SampleMemory& m, int64_t rows);

}  // namespace ingot::cuda
