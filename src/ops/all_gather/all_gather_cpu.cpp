#include <array>
#include <cstring>

#include "base/check.h"
#include "comm/comm.h"
#include "ops/all_gather/all_gather.h"

namespace ingot::cpu {

// By the calling thread: of a decode step it moves some KiB.
void run(const AllGather& op, Ctx& ctx) {
  constexpr size_t kMostRanks = 64;
  CHECK(op.comm != nullptr && op.begins.size() <= kMostRanks, "{} ranks", op.begins.size());
  CHECK(op.blocks == 1 || (op.out.stride == op.out.cols && op.x.stride == op.x.cols), "blocks with gaps");
  const int64_t rows = ctx.rows(op.out) * op.blocks;
  const int64_t x_pitch = op.blocks == 1 ? op.x.stride : op.x.cols / op.blocks;
  const int64_t pitch = op.blocks == 1 ? op.out.stride : op.out.cols / op.blocks;
  const auto own = static_cast<size_t>(op.comm->rank());
  for (int64_t t = 0; t < rows; ++t)
    std::memcpy(op.out.f32(0) + t * pitch + op.begins[own], op.x.f32(0) + t * x_pitch,
                static_cast<size_t>(op.counts[own]) * sizeof(float));
  const bool wanted = !op.first_only || own == 0;
  std::array<CommBlock, kMostRanks> parts;
  for (size_t r = 0; r < op.begins.size(); ++r) {
    parts[r].data = wanted || r == own ? reinterpret_cast<std::byte*>(op.out.f32(0) + op.begins[r]) : nullptr;
    parts[r].rows = rows;
    parts[r].bytes = op.counts[r] * static_cast<int64_t>(sizeof(float));
    parts[r].pitch = pitch * static_cast<int64_t>(sizeof(float));
  }
  const auto all = std::span<const CommBlock>(parts).first(op.begins.size());
  if (op.first_only)
    op.comm->gather(all, 0);
  else
    op.comm->all_gather(all);
}

}  // namespace ingot::cpu
