// Weights of bf16 into the order that the streaming kernels read, once; and what those kernels are given.
#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/stream.cuh"

namespace ingot::cuda {
namespace {

// Eight weights a thread.
__global__ void pack_stream_kernel(const uint16_t* w0, const uint16_t* w1, const uint16_t* w2, RowMap map,
                                   int tile_rows, int64_t cols, int64_t pieces, uint4* to) {
  // The next kernel may not begin: it reads these weights before it waits.
  wait_for_inputs();
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= pieces) return;
  const int64_t chunks = stream_chunks(cols);
  const Piece piece = piece_at(index, tile_rows, chunks);
  uint32_t words[4] = {};
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const PartRow at = packed_row(map, tile_rows, piece.tile, piece_row(piece, e));
    const int64_t col = piece.chunk * kStreamCols + piece_col(piece, e);
    if (at.part < 0 || col >= cols) continue;
    const uint16_t* w = at.part == 0 ? w0 : at.part == 1 ? w1 : w2;
    words[e / 2] |= static_cast<uint32_t>(w[at.row * cols + col]) << (e % 2 * 16);
  }
  to[index] = make_uint4(words[0], words[1], words[2], words[3]);
}

}  // namespace

int64_t streamed_bytes(const RowMap& map, int tile_rows, int64_t cols) {
  return stream_tiles(map, tile_rows) * stream_chunks(cols) * tile_rows * kStreamCols * 2;
}

void pack_stream(const DeviceProduct& product, const RowMap& map, int tile_rows, std::byte* to, const DeviceCtx& ctx) {
  const auto data = [&](size_t part) {
    return part < static_cast<size_t>(product.n_parts)
               ? reinterpret_cast<const uint16_t*>(product.parts[part].weight->data)
               : nullptr;
  };
  const int64_t pieces = streamed_bytes(map, tile_rows, product.cols()) / 16;
  launch(ctx, pack_stream_kernel, {dim3(ceil_div(pieces, 256)), dim3(256)}, data(0), data(1), data(2), map, tile_rows,
         product.cols(), pieces, reinterpret_cast<uint4*>(to));
}

StreamArgs stream_args(const StreamRun& run) {
  const DeviceProduct& product = *run.product;
  StreamArgs args;
  args.weights = product.streamed->weights;
  args.tiles = stream_tiles(run.map, product.streamed->tile_rows);
  args.from = product.streamed->from;
  args.to = product.streamed->to;
  args.chunks = static_cast<int>(stream_chunks(product.cols()));
  args.rows = static_cast<int>(run.rows);
  args.x = run.x;
  args.input = run.input;
  args.map = run.map;
  args.glu = product.glu;
  std::copy(run.outs, run.outs + 3, args.outs);
  if (run.map.order == RowOrder::kHeads) {
    args.heads = heads_args(product.heads);
    CHECK(args.heads.table.dtype == DType::kF32, "angles that are not f32");
  }
  return args;
}

}  // namespace ingot::cuda
