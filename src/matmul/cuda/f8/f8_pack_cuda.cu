// Weights of e4m3 into the order of f8_rows.cuh, once.
#include "base/check.h"
#include "matmul/cuda/f8/f8.cuh"
#include "matmul/cuda/f8/f8_rows.cuh"
#include "matmul/cuda/published.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256;

struct F8PackArgs {
  const uint8_t* data[3] = {};
  int64_t row_bytes[3] = {};
  BesideScales scales[3];
  RowMap map;
  int tile_rows = 0;
  int64_t cols = 0, chunks = 0, warps = 0;
  std::byte* to = nullptr;
};

// A warp for a chunk of 16 rows; a lane has four pieces of 16 bytes, the first lanes a row's scale.
__global__ void __launch_bounds__(kThreads) pack_f8_kernel(const __grid_constant__ F8PackArgs args) {
  // The next kernel may not begin: it reads these weights before it waits.
  wait_for_inputs();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t block = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
  if (block >= args.warps) return;
  const int sixteens = args.tile_rows / 16, m = static_cast<int>(block % sixteens);
  const int64_t tile = block / sixteens / args.chunks, chunk = block / sixteens % args.chunks;
  std::byte* to = args.to + block * kF8Chunk;
  for (int i = lane; i < kF8Codes / 16; i += 32) {
    const int line = i / 8 % 8, piece = kv_piece(line, i % 8);
    const PartRow at = packed_row(args.map, args.tile_rows, tile, m * 16 + i / 64 * 8 + f8_row_at(line));
    uint32_t words[4] = {};
    if (at.part >= 0) {
      const uint8_t* row = args.data[at.part] + at.row * args.row_bytes[at.part] + chunk * kF8Cols;
#pragma unroll
      for (int b = 0; b < 16; ++b) words[b / 4] |= static_cast<uint32_t>(row[f8_col(piece * 16 + b)]) << (b % 4 * 8);
    }
    reinterpret_cast<uint4*>(to)[i] = make_uint4(words[0], words[1], words[2], words[3]);
  }
  if (lane >= 16) return;
  const PartRow at = packed_row(args.map, args.tile_rows, tile, m * 16 + lane);
  if (at.part < 0) return Published<F8_E4M3>::no_scales(to + kF8Codes, lane);
  Published<F8_E4M3>::scales(args.data[at.part] + at.row * args.row_bytes[at.part], chunk * kF8Cols, args.cols,
                             args.scales[at.part].of_row(at.row), to + kF8Codes, lane);
}

}  // namespace

int64_t f8_packed_bytes(const StreamedPart& part, int64_t cols) {
  return stream_tiles(part.map, part.tile_rows) * (part.tile_rows / 16) * (cols / kF8Cols) * kF8Chunk;
}

void pack_f8(const DeviceProduct& product, const StreamedPart& part, std::byte* to, const DeviceCtx& ctx) {
  F8PackArgs args;
  for (int i = 0; i < product.n_parts; ++i) {
    const Weight& w = *product.parts[i].weight;
    args.data[i] = reinterpret_cast<const uint8_t*>(w.data);
    args.row_bytes[i] = w.row_bytes;
    args.scales[i] = BesideScales(w);
  }
  args.map = part.map;
  args.tile_rows = part.tile_rows;
  args.cols = product.cols();
  args.chunks = product.cols() / kF8Cols;
  args.warps = f8_packed_bytes(part, product.cols()) / kF8Chunk;
  args.to = to;
  launch(ctx, pack_f8_kernel, {dim3(ceil_div(args.warps * 32, kThreads)), dim3(kThreads)}, args);
}

}  // namespace ingot::cuda
