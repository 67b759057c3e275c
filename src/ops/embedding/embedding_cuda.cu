#include <algorithm>

#include "base/check.h"
#include "ops/cuda/kernel.cuh"
#include "ops/cuda/ops.h"
#include "ops/embedding/embedding.h"

namespace ingot::cuda {
namespace {

// The scales beside a table.
struct Scales {
  const float* values;  // null: none
  int64_t rows, cols, stride;
};

template <class F>
constexpr bool whole_rows = requires {
  F::kWholeRows;
};

// A block for each row, a thread for each block of the format.
template <class F>
__global__ void embed(const uint8_t* __restrict__ table, int64_t table_rows, int64_t row_bytes, Scales scales,
                      const int32_t* indices, View out) {
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  int64_t index = indices[r];
  if (index < 0 || index >= table_rows) index = 0;
  const uint8_t* from = table + index * row_bytes;
  float* to = reinterpret_cast<float*>(out.row(r));
  for (int64_t b = threadIdx.x; b * F::kBlock < out.cols; b += blockDim.x) {
    float* block = to + b * F::kBlock;
    if constexpr (whole_rows<F>) {
      F::decode_block(from, b * F::kBlock, block);
    } else {
      F::decode(from + b * F::kBytes, block);
    }
    if (scales.values == nullptr) continue;
    const float* row_scale = scales.values + index / scales.rows * scales.stride;
    for (int64_t k = 0; k < F::kBlock; ++k) block[k] *= row_scale[(b * F::kBlock + k) / scales.cols];
  }
}

}  // namespace

void run(const Embedding& op, Ctx& ctx) {
  const Weight& w = op.table;
  CHECK(op.out.dtype == DType::kF32 && op.out.cols == w.cols, "{} columns of {} into {} of {}", w.cols,
        format_name(w.format), op.out.cols, dtype_name(op.out.dtype));
  const int64_t rows = ctx.rows(op.out);
  if (rows == 0) return;
  const int32_t* indices = op.by == Embedding::By::kToken ? ctx.batch.token : ctx.batch.position;
  const Scales scales{w.scale, w.scale_rows, w.scale_cols, w.scale_stride};
  visit_format(w.format, [&](auto f) {
    using F = decltype(f);
    const int64_t threads = std::clamp<int64_t>(ceil_div(ceil_div(w.cols, F::kBlock), 32) * 32, 32, 256);
    launch(ctx, embed<F>, {dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads))},
           reinterpret_cast<const uint8_t*>(w.data), w.rows, w.row_bytes, scales, indices, View(op.out));
  });
}

}  // namespace ingot::cuda
