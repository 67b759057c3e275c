// Stores each row's k and v heads into the slot that the batch names for this layer's KV group.
#pragma once

#include "ops/ctx.h"
#include "ops/kv_cache.h"

namespace ingot {

struct KvWrite {
  Tensor k;  // [T, kv_heads · k_dim]
  Tensor v;  // [T, kv_heads · v_dim]
  KvLayer kv;

  template <class F>
  void each(F&& f) {
    f.in(k);
    f.in(v);
  }
  Cost cost(const Shape& s) const { return {2 * (s.bytes(k) + s.bytes(v)), 0}; }
  template <class F>
  void each_kv(F&& f) {
    f(kv);
  }
};

namespace ref {
void run(const KvWrite& op, Ctx& ctx);
}
namespace cpu {
void run(const KvWrite& op, Ctx& ctx);
}

}  // namespace ingot
