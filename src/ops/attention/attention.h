// Attention of the step's rows over the paged KV cache, which already holds their own k and v.
// Row t of seq s sees the positions p with  position[t] - window < p <= position[t]  (window 0: all up
// to its own); chunked: those of its own chunk of `window` positions, which begin at its multiples. Heads share KV
// heads in groups (GQA). Scores are (q · k) · scale, through softcap · tanh(score / softcap) when softcap > 0; a sink,
// when given, adds exp(sink) to its head's sum.
//
// The keys are taken in blocks of kBlock positions, and these in splits of kSplit, both at absolute multiples. A
// split's blocks are merged in order, then the splits: so several threads can share a row's keys, and a row's result
// does not depend on how the step was cut, on its batch mates, on its pages or on the threads.
#pragma once

#include "ops/ctx.h"
#include "ops/kv_cache.h"
#include "quant/weight.h"

namespace ingot {

struct Attention {
  static constexpr int kBlock = 64;
  // Small enough that two cores share the 576 keys of a model with 3 KV heads evenly (15 items); merging costs a
  // query 2 of 256 multiply-adds for each dimension.
  static constexpr int kSplit = 128;

  Tensor q;    // [T, heads · q_dim()]: as keys are; over a latent cache first what meets the latent
  Tensor out;  // [T, heads · v_dim]
  KvLayer kv;
  int heads = 0;
  int window = 0;
  bool chunked = false;  // REQUIRES: window > 0
  float scale = 1;
  float softcap = 0;
  Weight sinks;            // [heads] f32, or none
  int64_t parts_room = 0;  // floats of the shared memory for the results of splits; set by prepare()
  int split_keys = 0;      // CUDA: length of splits at absolute positions; set by cuda::prepare(), 0: no such splits

  // The first position that a row at `position` sees.
  int first_seen(int position) const {
    if (chunked) return position / window * window;
    return window > 0 && position >= window ? position - window + 1 : 0;
  }

  template <class F>
  void each(F&& f) {
    f.in(q);
    if (sinks) f.weight(sinks);
    f.out(out);
  }
  // Without the cache: how much of it is read depends on the lengths of the seqs, which a shape does not hold.
  Cost cost(const Shape& s) const { return {s.bytes(q) + s.bytes(out), 0}; }
  Cost cache_cost(const CacheUse& use) const {
    // A window is longer than what is read, or cuts every row's view alike.
    const double per_row = use.rows > 0 ? use.pairs / use.rows : 0;
    const double part = window > 0 && window < per_row ? window / per_row : 1;
    return {part * use.positions * kv.kv_heads * static_cast<double>(kv.k_bytes() + kv.v_bytes()),
            part * 2.0 * use.pairs * heads * (kv.q_dim() + kv.v_dim)};
  }
  template <class F>
  void each_kv(F&& f) {
    f(kv);
  }
  template <class F>
  void each_bf16(F&& f) const {
    f.may(out);
    // Queries meet 8-bit keys as f16, which holds what bf16 does of any that matters.
    if (kv.dtype == DType::kBF16 || kv.dtype == DType::kFp8 || kv.dtype == DType::kQ8_0) f.may(q);
  }
};

namespace ref {
void run(const Attention& op, Ctx& ctx);
}
namespace cpu {
void prepare(Attention& op, Prepare& p);
void run(const Attention& op, Ctx& ctx);
}  // namespace cpu

}  // namespace ingot
