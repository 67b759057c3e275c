// The columns of which each rank has made some, whole on every rank: out = x of rank 0, x of rank 1, … beside each
// other, in each of `blocks` blocks of a row (the places of experts; 1 elsewhere). All ranks run it at the same point
// of the same step. Throws CommError where another rank does not come; on devices the runner does, after the step.
#pragma once

#include <memory>
#include <vector>

#include "ops/ctx.h"

namespace ingot {

class Comm;
namespace cuda {
struct GatherPeers;
}

struct AllGather {
  Tensor x;                     // [T, blocks · n] this rank's
  Tensor out;                   // [T, blocks · N]
  std::vector<int64_t> begins;  // [ranks] the first column of each rank's, of a block
  std::vector<int64_t> counts;  // [ranks] how many
  int64_t blocks = 1;
  bool first_only = false;  // rank 0 alone reads the result
  Comm* comm = nullptr;     // set in a program of the CPU
  // Set by cuda::prepare(): where each rank's x lies on its device.
  std::shared_ptr<const cuda::GatherPeers> peers;

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(out), 0}; }
  bool by_row() const { return true; }
  int regions() const { return 0; }
  // It copies: both are or neither is.
  template <class F>
  void each_bf16(F&& f) const {
    f.may_with(x, out);
    f.may_with(out, x);
  }
};

namespace ref {
void run(const AllGather& op, Ctx& ctx);
}
namespace cpu {
void run(const AllGather& op, Ctx& ctx);
}

}  // namespace ingot
