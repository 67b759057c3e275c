#include "base/check.h"
#include "matmul/cuda/experts/experts_many.cuh"
#include "matmul/cuda/tall/tall.cuh"

namespace ingot::cuda {

bool experts_many_has(Format format, int arch) { return arch == 90 && tall_has_groups(format); }

// Half as many again as an expert has on average fit in most tiles: a second one reads the weights again. From 256 on
// the last tile of an expert, which is half empty on average, is little beside the others.
int experts_many_tile(int64_t places, int64_t count) {
  const int64_t each = places / count;
  return each <= 20 ? 32 : each <= 40 ? 64 : each <= 96 ? 128 : kTallRows;
}

int64_t experts_many_scratch(int64_t places, int64_t cols) { return tall_groups_scratch(places, cols); }

void run_experts_many(const ExpertRun& run, const DeviceCtx& ctx) {
  const PackedExperts& packed = *run.packed;
  const int64_t bytes = experts_many_scratch(run.places, packed.cols);
  CHECK(bytes <= ctx.scratch_bytes, "{} bytes of scratch, {} given", bytes, ctx.scratch_bytes);
  TallGroupsRun groups;
  groups.part = packed.part;
  groups.part.weights = packed.weights;
  groups.cols = packed.cols;
  groups.x_rows = run.tile;
  groups.x = run.x;
  groups.padded = true;
  groups.per_row = run.per_row;
  groups.groups.stride = packed.stride;
  groups.groups.tiles = run.most();
  groups.groups.list = run.list;
  groups.groups.out = run.out;
  groups.groups.outputs = static_cast<int>(packed.part.map.rows[0]);
  groups.groups.glu = run.glu;
  groups.groups.bias[0] = run.bias[0];
  groups.groups.bias[1] = run.bias[1];
  run_tall_groups(groups, ctx.scratch, ctx);
}

}  // namespace ingot::cuda
