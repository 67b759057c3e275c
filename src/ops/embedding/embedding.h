// out[t] = row of the table: of the row's token, or of its position (learned positions).
// An index outside the table reads row 0: the engine has refused such tokens before.
#pragma once

#include "ops/ctx.h"
#include "quant/weight.h"

namespace ingot {

struct Embedding {
  enum class By : uint8_t { kToken, kPosition };

  Weight table;  // [V, D] any format
  Tensor out;    // [T, D]
  By by = By::kToken;

  template <class F>
  void each(F&& f) {
    f.weight(table);
    f.out(out);
  }
  Cost cost(const Shape& s) const {
    return {s.bytes(out) + static_cast<double>(s.rows(out.rows) * table.row_bytes), static_cast<double>(s.count(out))};
  }
  template <class F>
  void each_table(F&& f) const {
    f(table);
  }
};

namespace ref {
void run(const Embedding& op, Ctx& ctx);
}
namespace cpu {
void run(const Embedding& op, Ctx& ctx);
}

}  // namespace ingot
