// Rope of q in place, and rope of k on its way into the KV cache beside v. Made by the fusion rule
// `rope_kv_write`; bit for bit what Rope and KvWrite give, but k itself is left unrotated.
#pragma once

#include "ops/ctx.h"
#include "ops/kv_cache.h"

namespace ingot {

struct RopeKvWrite {
  Tensor q;      // [T, heads · head_dim] in place
  Tensor k;      // [T, kv_heads · head_dim]
  Tensor v;      // [T, kv_heads · v_dim]
  Tensor table;  // [T, rotary_dim]
  KvLayer kv;
  int head_dim = 0;
  bool interleaved = false;

  template <class F>
  void each(F&& f) {
    f.in(table);
    f.in(k);
    f.in(v);
    f.inout(q);
  }
  Cost cost(const Shape& s) const {
    return {2 * (s.bytes(q) + s.bytes(k) + s.bytes(v)), 3.0 * static_cast<double>(s.count(q) + s.count(k))};
  }
  template <class F>
  void each_kv(F&& f) {
    f(kv);
  }
};

namespace ref {
void run(const RopeKvWrite& op, Ctx& ctx);
}
namespace cpu {
void run(const RopeKvWrite& op, Ctx& ctx);
// Row t alone; `slot` is where it goes.
void run_row(const RopeKvWrite& op, int64_t t, int64_t slot);
}  // namespace cpu

}  // namespace ingot
