// The columns of which each rank has made some, whole on every rank: out = x of rank 0, x of rank 1, … beside each
// other, in each of `blocks` blocks of a row (the places of experts; 1 elsewhere). All ranks run it at the same point
// of the same step. Throws CommError where another rank does not come.
#pragma once

#include <vector>

#include "ops/ctx.h"

namespace ingot {

class Comm;

struct AllGather {
  Tensor x;                     // [T, blocks · n] this rank's
  Tensor out;                   // [T, blocks · N]
  std::vector<int64_t> begins;  // [ranks] the first column of each rank's, of a block
  std::vector<int64_t> counts;  // [ranks] how many
  int64_t blocks = 1;
  bool first_only = false;  // rank 0 alone reads the result
  Comm* comm = nullptr;     // set in a program

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(out), 0}; }
  bool by_row() const { return true; }
  int regions() const { return 0; }
};

namespace ref {
void run(const AllGather& op, Ctx& ctx);
}
namespace cpu {
void run(const AllGather& op, Ctx& ctx);
}

}  // namespace ingot
