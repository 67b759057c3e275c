#include <algorithm>
#include <optional>

#include "base/check.h"
#include "cuda/elements.cuh"
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

// Which rows of the table the batch reads.
struct RowIndices {
  const int32_t* values;
  const int32_t* made;  // of the step before (DeviceBatch), null: all values are known
};

// The row of the table that row r of the batch reads.
__device__ int64_t table_row(RowIndices indices, int64_t r, int64_t table_rows) {
  int64_t index = indices.values[r];
  if (index < 0 && indices.made != nullptr) index = indices.made[-1 - index];
  return index < 0 || index >= table_rows ? 0 : index;
}

// A block for each row, where the table's values are those of an activation's type and lie by fours.
__global__ void embed_floats(View table, int64_t table_rows, RowIndices indices, View out) {
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  const std::byte* from = table.row(table_row(indices, r, table_rows));
  for (int i = static_cast<int>(threadIdx.x); 4 * i < out.cols; i += static_cast<int>(blockDim.x))
    store_four(out.row(r), i, out.dtype, load_four(from, i, table.dtype));
}

// A block for each row, a thread for each block of the format.
template <class F>
__global__ void embed(const uint8_t* __restrict__ table, int64_t table_rows, int64_t row_bytes, Scales scales,
                      RowIndices indices, View out) {
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  const int64_t index = table_row(indices, r, table_rows);
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

// The table as a matrix of floats, where it is one that can be read by fours.
std::optional<Tensor> as_floats(const Weight& w) {
  Tensor t;
  t.data = const_cast<std::byte*>(w.data);
  t.cols = t.stride = w.cols;
  if (w.format == Format::kF16) {
    t.dtype = DType::kF16;
  } else if (w.format == Format::kBF16) {
    t.dtype = DType::kBF16;
  } else if (w.format != Format::kF32) {
    return std::nullopt;
  }
  const bool fits =
      in_fours(t) && w.cols % 4 == 0 && w.scale == nullptr && w.row_bytes == w.cols * dtype_bytes(t.dtype);
  return fits ? std::optional(t) : std::nullopt;
}

}  // namespace

void run(const Embedding& op, Ctx& ctx) {
  const Weight& w = op.table;
  CHECK(op.out.dtype == DType::kF32 && op.out.cols == w.cols, "{} columns of {} into {} of {}", w.cols,
        format_name(w.format), op.out.cols, dtype_name(op.out.dtype));
  const int64_t rows = ctx.rows(op.out);
  if (rows == 0) return;
  const RowIndices indices = op.by == Embedding::By::kToken ? RowIndices{ctx.batch.token, ctx.batch.made}
                                                            : RowIndices{ctx.batch.position, nullptr};
  if (const std::optional<Tensor> floats = as_floats(w); floats && in_fours(op.out)) {
    const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(row_threads(w.cols)))};
    return launch(ctx, embed_floats, shape, View(*floats), w.rows, indices, View(op.out));
  }
  const Scales scales{w.scale, w.scale_rows, w.scale_cols, w.scale_stride};
  visit_format(w.format, [&](auto f) {
    using F = decltype(f);
    const int64_t threads = std::clamp<int64_t>(ceil_div(ceil_div(w.cols, F::kBlock), 32) * 32, 32, 256);
    launch(ctx, embed<F>, {dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads))},
           reinterpret_cast<const uint8_t*>(w.data), w.rows, w.row_bytes, scales, indices, View(op.out));
  });
}

}  // namespace ingot::cuda
