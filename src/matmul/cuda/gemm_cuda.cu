// Many rows of bf16 without a library: blocks of 128 rows of x by 128 outputs, by matrix instructions, 32 columns at a
// time through a ring of four stages. Every output is one sum over K in ascending order, whatever the number of rows.
#include "base/check.h"
#include "matmul/cuda/gemm_clusters.h"
#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {
namespace {

constexpr int kTile = 128;  // of rows and of outputs
constexpr int kCols = 32;   // of K in a stage
constexpr int kStages = 4;
constexpr int kThreads = 256;  // eight warps of 64 rows by 32 outputs
// Rows of 64 bytes lie 80 bytes apart: the eight rows of an ldmatrix are in different banks.
constexpr int kStride = kCols + 8;
constexpr int kStage = 2 * kTile * kStride;

struct GemmArgs {
  const uint16_t* x = nullptr;
  int64_t x_stride = 0;
  const uint16_t* weights = nullptr;
  int64_t rows = 0, n = 0, cols = 0;
  PartOut out;
};

// Columns from `col` on of the block's rows of x and of weights; zeros beyond their ends.
__device__ void load_stage(const GemmArgs& args, int64_t row0, int64_t n0, int64_t col, uint16_t* to) {
#pragma unroll
  for (int i = 0; i < kTile * 4 / kThreads; ++i) {
    const int piece = static_cast<int>(threadIdx.x) + i * kThreads, r = piece / 4, c = piece % 4 * 8;
    const bool in_cols = col + c < args.cols;
    const bool has_x = in_cols && row0 + r < args.rows, has_w = in_cols && n0 + r < args.n;
    copy_async(to + r * kStride + c, has_x ? args.x + (row0 + r) * args.x_stride + col + c : args.x, has_x);
    copy_async(to + (kTile + r) * kStride + c, has_w ? args.weights + (n0 + r) * args.cols + col + c : args.weights,
               has_w);
  }
}

// One stage: 64 × 32 outputs of this warp, 32 columns.
__device__ void multiply_stage(const uint16_t* x, const uint16_t* weights, int lane, float (&acc)[4][4][4]) {
#pragma unroll
  for (int k = 0; k < kCols; k += 16) {
    uint32_t b[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      // Matrices: outputs 0 … 7 by the first and the last eight columns, then outputs 8 … 15.
      load_matrices(b[j], weights + (j * 16 + lane / 16 * 8 + lane % 8) * kStride + k + lane / 8 % 2 * 8);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t a[4];
      load_matrices(a, x + (i * 16 + lane % 16) * kStride + k + lane / 16 * 8);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t of[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
        multiply_bf16(acc[i][j], a, of);
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads) linear_gemm(const GemmArgs args) {
  uint16_t* ring = shared_memory<uint16_t>();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t n0 = int64_t{blockIdx.y} * kTile + int64_t{blockIdx.z} * 32768 * kTile,
                row0 = int64_t{blockIdx.x} * kTile;
  const int64_t steps = ceil_div(args.cols, kCols);
  let_next_begin();
  wait_for_inputs();
  if (n0 >= args.n) return;
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < steps) load_stage(args, row0, n0, int64_t{i} * kCols, ring + i * kStage);
    commit_copies();
  }
  float acc[4][4][4] = {};
  const int x_at = warp / 4 * 64 * kStride, w_at = (kTile + warp % 4 * 32) * kStride;
  for (int64_t step = 0; step < steps; ++step) {
    copies_done<kStages - 2>();
    __syncthreads();  // this stage has arrived for all, and all have left the one before it
    const int64_t ahead = step + kStages - 1;
    if (ahead < steps) load_stage(args, row0, n0, ahead * kCols, ring + ahead % kStages * kStage);
    commit_copies();
    const uint16_t* stage = ring + step % kStages * kStage;
    multiply_stage(stage + x_at, stage + w_at, lane, acc);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t row = row0 + warp / 4 * 64 + i * 16 + lane / 4 + e / 2 * 8;
        const int64_t n = n0 + warp % 4 * 32 + j * 8 + lane % 4 * 2 + e % 2;
        if (row < args.rows && n < args.n) store_part(args.out, row, n, acc[i][j][e]);
      }
    }
  }
}

}  // namespace

bool gemm_takes(const View& x, const Weight& weight) {
  return weight.format == Format::kBF16 && weight.scale == nullptr && weight.cols % 8 == 0 && x.dtype == DType::kBF16 &&
         x.stride % 8 == 0 &&
         (reinterpret_cast<uintptr_t>(x.data) | reinterpret_cast<uintptr_t>(weight.data)) % 16 == 0;
}

void run_gemm(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx) {
  CHECK(gemm_takes(x, weight), "weight {}", weight.name);
  if (!ctx.batch_invariant && run_gemm_clusters(x, weight, out, rows, ctx)) return;
  run_gemm_tiles(x, weight, out, rows, ctx);
}

void run_gemm_tiles(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx) {
  GemmArgs args;
  args.x = reinterpret_cast<const uint16_t*>(x.data);
  args.x_stride = x.stride;
  args.weights = reinterpret_cast<const uint16_t*>(weight.data);
  args.rows = rows;
  args.n = weight.rows;
  args.cols = weight.cols;
  args.out = out;
  const int64_t tiles = ceil_div(weight.rows, kTile);
  launch(ctx, linear_gemm,
         {dim3(ceil_div(rows, kTile), std::min<int64_t>(tiles, 32768), ceil_div(tiles, 32768)), dim3(kThreads),
          int64_t{kStages} * kStage * 2},
         args);
}

}  // namespace ingot::cuda
