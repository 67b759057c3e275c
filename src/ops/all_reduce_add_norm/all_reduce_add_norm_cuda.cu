#include <algorithm>

#include "base/check.h"
#include "cuda/peer_hands.cuh"
#include "cuda/row_registers.cuh"
#include "ops/all_reduce_add_norm/all_reduce_add_norm.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {
namespace {

struct Rows {
  const float *x, *residual, *weight;
  float *sum, *out;
  int64_t residual_stride, sum_stride, out_stride;
  int rows, cols;
  float eps;
};

// Pieces of a row that a thread asks for at once: as many as registers hold of eight ranks beside the row.
template <class Row>
constexpr int kAtOnce = Row::kCount == 2 ? 2 : 1;

// Past the L1 cache.
__device__ void load_fresh_group(const float* row, int i, float (&to)[4]) {
  const float4 x = __ldcg(reinterpret_cast<const float4*>(row) + i);
  to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}

// A block has a row: it gives the rank's part to all others, and keeps the sum in registers for the norm.
template <class Row>
__global__ void __launch_bounds__(Row::kThreads)
    reduce_add_norm_kernel(const __grid_constant__ PeerHands<4> hands, const __grid_constant__ Rows g) {
  constexpr int kStep = kAtOnce<Row>;
  let_next_begin();
  wait_for_inputs();
  float* const room = shared_memory<float>();
  const uint32_t turn = hands.turn();
  for (int r = static_cast<int>(blockIdx.x); r < g.rows; r += static_cast<int>(gridDim.x)) {
    const auto first = static_cast<uint32_t>(r) * (g.cols / 4);
    Row row = {};
    row.each(g.cols, [&](auto& v, int i) { load_fresh_group(g.x + int64_t{r} * g.cols, i, v); });
    row.each(g.cols, [&](auto& v, int i) { hands.give(turn, first + i, v); });
    float squares = 0;
#pragma unroll
    for (int j = 0; j < Row::kCount; j += kStep) {
      uint32_t at[kStep];
      float piece[kStep][4], residual[kStep][4] = {};
#pragma unroll
      for (int p = 0; p < kStep; ++p) {
        const bool within = Row::within(j + p, g.cols);
        at[p] = within ? first + Row::group(j + p) : ~0u;
        if (within) load_fresh_group(g.residual + r * g.residual_stride, Row::group(j + p), residual[p]);
#pragma unroll
        for (int k = 0; k < 4; ++k) piece[p][k] = row.v[j + p][k];
      }
      hands.sum(turn, at, piece);
#pragma unroll
      for (int p = 0; p < kStep; ++p) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          float& one = row.v[j + p][k];
          one = residual[p][k] + piece[p][k];
          squares += one * one;
        }
      }
    }
    row.each(g.cols, [&](auto& v, int i) {
      Row::template store_group<DType::kF32>(reinterpret_cast<std::byte*>(g.sum + r * g.sum_stride), i, v);
    });
    const float inverse = inverse_root(block_sum(squares, room), g.cols, g.eps);
    row.each(g.cols, [&](auto& v, int i) {
      float w[4];
      Row::template load_group<DType::kF32>(reinterpret_cast<const std::byte*>(g.weight), i, w);
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] = v[k] * inverse * w[k];
      Row::template store_group<DType::kF32>(reinterpret_cast<std::byte*>(g.out + r * g.out_stride), i, v);
    });
  }
  hands.end(turn);
}

// f(row) with the row that a block keeps; false: too long.
template <class F>
bool with_row(int64_t cols, F&& f) {
  if (cols <= 512) {
    f(TypedRow<1, 128, 4>{});
  } else if (cols <= 2048) {
    f(TypedRow<1, 512, 4>{});
  } else if (cols <= 4096) {
    f(TypedRow<2, 512, 4>{});
  } else if (cols <= 8192) {
    f(TypedRow<4, 512, 4>{});
  } else if (cols <= kRegisterCols) {
    f(TypedRow<8, 512, 4>{});
  } else {
    return false;
  }
  return true;
}

float* values(const Tensor& t) {
  CHECK(t.dtype == DType::kF32, "sums over ranks are f32");
  return reinterpret_cast<float*>(t.data);
}

bool give_row(const AllReduceAddNorm& op, int64_t rows, Ctx& ctx) {
  const int64_t pieces = rows * op.out.cols / 4;
  bool fours = op.out.cols % 4 == 0;
  for (const Tensor* t : {&op.residual, &op.sum, &op.out}) fours = fours && t->stride % 4 == 0;
  if (!fours || pieces > PeerHands<4>::most_pieces(ctx.peers->ranks)) return false;
  const PeerHands<4> hands{.peers = *ctx.peers, .pieces = static_cast<uint32_t>(pieces)};
  const Rows g{.x = values(op.x),
               .residual = values(op.residual),
               .weight = reinterpret_cast<const float*>(op.weight.data),
               .sum = values(op.sum),
               .out = values(op.out),
               .residual_stride = op.residual.stride,
               .sum_stride = op.sum.stride,
               .out_stride = op.out.stride,
               .rows = static_cast<int>(rows),
               .cols = static_cast<int>(op.out.cols),
               .eps = op.eps};
  return with_row(op.out.cols, [&](auto row) {
    using Row = decltype(row);
    const Launch shape{.grid = dim3(static_cast<unsigned>(std::min<int64_t>(rows, kPeerBlocks))),
                       .threads = dim3(Row::kThreads),
                       .shared = 32 * sizeof(float)};
    launch_peers(ctx, reduce_add_norm_kernel<Row>, shape, hands, g);
  });
}

}  // namespace

void run(const AllReduceAddNorm& op, Ctx& ctx) {
  CHECK(ctx.peers != nullptr && op.x.stride == op.x.cols, "rows with gaps");
  CHECK(op.weight.format == Format::kF32, "a norm's weight is f32, not {}", format_name(op.weight.format));
  const int64_t rows = ctx.rows(op.out);
  if (rows == 0 || give_row(op, rows, ctx)) return;
  run(AllReduce{.x = op.x, .out = op.x}, ctx);
  run(AddRmsNorm{.a = op.residual, .b = op.x, .weight = op.weight, .sum = op.sum, .out = op.out, .eps = op.eps}, ctx);
}

}  // namespace ingot::cuda
