// The results of a row's experts, each computed by one of the ranks, added on every rank in the order in which the row
// has them: out = weight 0 · place 0 + weight 1 · place 1 + …, bit for bit what ExpertLinear gives that has all
// experts. All ranks run it at the same point of the same step. Throws CommError where another rank does not come.
//
// Few rows: all ranks get all places and add them. Many: each rank gets its share of the columns of all places, adds
// them, and gives the others the sums, which are fewer.
#pragma once

#include "ops/ctx.h"

namespace ingot {

class Comm;

struct ExpertCombine {
  Tensor places;         // [T, k · N] without gaps; this rank has written its own
  Tensor ranks;          // [T, k] i32 whose each is
  Tensor weights;        // [T, k], or none
  Tensor out;            // [T, N]
  Comm* comm = nullptr;  // set in a program

  int64_t used() const { return ranks.cols; }  // k
  template <class F>
  void each(F&& f) {
    f.in(places);
    f.in(ranks);
    if (weights) f.in(weights);
    f.out(out);
  }
  Cost cost(const Shape& s) const {
    return {2 * s.bytes(places) + s.bytes(out), 2 * static_cast<double>(s.count(places))};
  }
  bool by_row() const { return true; }
};

namespace ref {
void run(const ExpertCombine& op, Ctx& ctx);
}
namespace cpu {
void prepare(ExpertCombine& op, Prepare& p);
void run(const ExpertCombine& op, Ctx& ctx);
}  // namespace cpu

}  // namespace ingot
