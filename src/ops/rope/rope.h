// Rotates the first rotary_dim columns of each head of q and k in place, by the row's angles; of q's heads those from
// q_first on. Pairs are (i, i + rotary_dim / 2), or (2i, 2i + 1) when interleaved.
#pragma once

#include "ops/ctx.h"

namespace ingot {

struct Rope {
  Tensor q;      // [T, heads · q_width()] in place
  Tensor k;      // [T, kv_heads · head_dim] in place
  Tensor table;  // [T, rotary_dim] of RopeTable; rotary_dim = table.cols
  int head_dim = 0;
  bool interleaved = false;
  int q_head = 0, q_first = 0;  // columns of q's heads where they are not head_dim, and the first that is rotated

  int q_width() const { return q_head > 0 ? q_head : head_dim; }
  template <class F>
  void each(F&& f) {
    f.in(table);
    f.inout(q);
    f.inout(k);
  }
  Cost cost(const Shape& s) const {
    return {2 * (s.bytes(q) + s.bytes(k)), 3.0 * static_cast<double>(s.count(q) + s.count(k))};
  }
};

namespace ref {
void run(const Rope& op, Ctx& ctx);
}
namespace cpu {
void run(const Rope& op, Ctx& ctx);
}

}  // namespace ingot
