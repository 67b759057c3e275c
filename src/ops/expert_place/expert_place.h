// Who computes what of the experts that rows have chosen, where experts are spread over ranks. All ranks run it on the
// same choices, so all know who has what. An expert of one rank is computed there. One of several is in pieces of up to
// kPiece places, each for the rank that has the fewest pieces so far; experts of one rank count first, and of equal
// ranks the lowest is taken. A piece is read once and has some rows: so ranks read and compute about as much.
#pragma once

#include <vector>

#include "ops/ctx.h"

namespace ingot {

struct ExpertPlace {
  // As many rows of a product cost about what reading its weights does.
  static constexpr int64_t kPiece = 32;

  Tensor experts;                             // [T, k] i32 of the layer
  Tensor own;                                 // [T, k] i32 the same among this rank's; -1: another computes it
  Tensor ranks;                               // [T, k] i32 who does
  int rank = 0;                               // this one
  std::vector<std::vector<int32_t>> holders;  // [E] ranks that have it, ascending
  std::vector<int32_t> index;                 // [E] its number among this rank's; -1: it has it not

  template <class F>
  void each(F&& f) {
    f.in(experts);
    f.out(own);
    f.out(ranks);
  }
  Cost cost(const Shape& s) const { return {3 * s.bytes(experts), 0}; }
  // Who computes a row's places follows from the other rows, what they are does not.
  bool by_row() const { return true; }
  int regions() const { return 0; }
};

namespace ref {
void run(const ExpertPlace& op, Ctx& ctx);
}
namespace cpu {
void prepare(ExpertPlace& op, Prepare& p);
void run(const ExpertPlace& op, Ctx& ctx);
}  // namespace cpu

}  // namespace ingot
