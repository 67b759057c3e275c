#include "base/check.h"
#include "cuda/select.cuh"
#include "ops/cuda/ops.h"
#include "ops/top_k/top_k.h"

namespace ingot::cuda {
namespace {

// A block for each row: the border of the k largest, then those before it in any order, then they are sorted where they
// lie.
__global__ void top_k(View x, float* values, int64_t values_stride, int32_t* ids, int64_t ids_stride, int k,
                      bool wide) {
  SelectRoom& room = *shared_memory<SelectRoom>();
  let_next_begin();
  wait_for_inputs();
  const float* row = reinterpret_cast<const float*>(x.row(blockIdx.x));
  values += blockIdx.x * values_stride;
  ids += blockIdx.x * ids_stride;
  top_of_row(room, row, x.cols, wide, k, [&](uint32_t place, float v, int i) {
    values[place] = v;
    ids[place] = i;
  });
  const auto key = [&](int i) { return order_key(values[i], ids[i]); };
  sort_block(
      k, [&](int a, int b) { return key(a) > key(b); },
      [&](int a, int b) {
        const float value = values[a];
        const int32_t id = ids[a];
        values[a] = values[b];
        ids[a] = ids[b];
        values[b] = value;
        ids[b] = id;
      });
}

}  // namespace

void run(const TopK& op, Ctx& ctx) {
  CHECK(op.ids.cols == op.values.cols && op.ids.cols <= op.x.cols, "the {} largest of {}", op.ids.cols, op.x.cols);
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0 || op.ids.cols == 0) return;
  const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(kSelectThreads), sizeof(SelectRoom)};
  launch(ctx, top_k, shape, View(op.x), op.values.f32(0), op.values.stride, op.ids.row<int32_t>(0), op.ids.stride,
         static_cast<int>(op.ids.cols), in_fours(op.x));
}

}  // namespace ingot::cuda
