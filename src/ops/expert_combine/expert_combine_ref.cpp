#include <vector>

#include "comm/comm.h"
#include "ops/expert_combine/expert_combine.h"

namespace ingot::ref {

// One place after another, from the rank that has it.
void run(const ExpertCombine& op, Ctx& ctx) {
  const int64_t n = op.out.cols;
  std::vector<float> place(static_cast<size_t>(n));
  for (int64_t t = 0; t < ctx.rows(op.out); ++t) {
    for (int64_t i = 0; i < n; ++i) op.out.f32(t)[i] = 0;
    for (int64_t j = 0; j < op.used(); ++j) {
      for (int64_t i = 0; i < n; ++i) place[static_cast<size_t>(i)] = op.places.f32(t)[j * n + i];
      op.comm->broadcast(std::as_writable_bytes(std::span(place)), op.ranks.row<int32_t>(t)[j]);
      for (int64_t i = 0; i < n; ++i)
        op.out.f32(t)[i] += (op.weights ? op.weights.f32(t)[j] : 1) * place[static_cast<size_t>(i)];
    }
  }
}

}  // namespace ingot::ref
