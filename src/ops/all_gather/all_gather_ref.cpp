#include <vector>

#include "comm/comm.h"
#include "ops/all_gather/all_gather.h"

namespace ingot::ref {

// One row after another through memory of its own.
void run(const AllGather& op, Ctx& ctx) {
  const auto own = static_cast<size_t>(op.comm->rank());
  const int64_t width = op.out.cols / op.blocks, x_width = op.x.cols / op.blocks;
  std::vector<float> whole(static_cast<size_t>(width));
  for (int64_t t = 0; t < ctx.rows(op.out); ++t)
    for (int64_t b = 0; b < op.blocks; ++b) {
      for (int64_t c = 0; c < op.counts[own]; ++c)
        whole[static_cast<size_t>(op.begins[own] + c)] = op.x.f32(t)[b * x_width + c];
      std::vector<CommBlock> parts;
      for (size_t r = 0; r < op.begins.size(); ++r)
        parts.push_back({.data = reinterpret_cast<std::byte*>(whole.data() + op.begins[r]),
                         .rows = 1,
                         .bytes = op.counts[r] * static_cast<int64_t>(sizeof(float))});
      op.comm->all_gather(parts);
      for (int64_t c = 0; c < width; ++c) op.out.f32(t)[b * width + c] = whole[static_cast<size_t>(c)];
    }
}

}  // namespace ingot::ref
