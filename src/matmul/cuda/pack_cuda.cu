// Weights into the order that the streaming kernels read, once; back to bf16 for products of many rows; and what those
// kernels are given.
#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/published.cuh"
#include "matmul/cuda/stream/stream.cuh"
#include "matmul/cuda/stream/stream_formats.cuh"

namespace ingot::cuda {
namespace {

// The weights of a part's rows on the device, as they are published.
struct PublishedParts {
  const uint8_t* data[3] = {};
  int64_t row_bytes[3] = {};
  BesideScales scales[3];
};

// 16 bits: eight weights a thread.
__global__ void pack_stream_kernel(const PublishedParts from, RowMap map, int tile_rows, int64_t cols, int64_t pieces,
                                   uint4* to) {
  // The next kernel may not begin: it reads these weights before it waits.
  wait_for_inputs();
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= pieces) return;
  const int64_t chunks = stream_units(cols);
  const Piece piece = piece_at(index, tile_rows, chunks);
  uint32_t words[4] = {};
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const PartRow at = packed_row(map, tile_rows, piece.tile, piece_row(piece, e));
    const int64_t col = piece.chunk * kStreamCols + piece_col(piece, e);
    if (at.part < 0 || col >= cols) continue;
    const auto* row = reinterpret_cast<const uint16_t*>(from.data[at.part]) + at.row * cols;
    words[e / 2] |= static_cast<uint32_t>(row[col]) << (e % 2 * 16);
  }
  to[index] = make_uint4(words[0], words[1], words[2], words[3]);
}

// Codes: a warp for 16 rows of a chunk, each lane its own words; then the first lanes a row's scales.
template <class F, class W>
__global__ void pack_codes_kernel(const PublishedParts from, RowMap map, int tile_rows, int64_t cols, int64_t blocks,
                                  std::byte* to) {
  wait_for_inputs();
  using Codes = typename W::Codes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t block = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (block >= blocks) return;
  const int64_t chunks = stream_chunks(cols, W::kUnits), sixteens = tile_rows / 16;
  const int64_t tile = block / sixteens / chunks, chunk = block / sixteens % chunks;
  const int m = static_cast<int>(block % sixteens);
  std::byte* place = to + block * W::kBytes;
  const int64_t first = chunk * W::kUnits * kStreamCols;
  uint32_t words[Codes::kWords] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const PartRow at = packed_row(map, tile_rows, tile, m * 16 + lane / 4 + 8 * i);
    if (at.part < 0) continue;
    const uint8_t* row = from.data[at.part] + at.row * from.row_bytes[at.part];
#pragma unroll
    for (int u = 0; u < W::kUnits; ++u) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int s = e / 4, p = e / 2 % 2 * 2 + i, h = e % 2;
        const int64_t col = first + u * kStreamCols + pair_col(W::kBySixteens, lane % 4, s, p) + h;
        if (col < cols) Codes::put(words, u, s, p, h, Published<F>::code(row, col));
      }
    }
  }
  store_words(place, lane, words);
  if (lane >= 16) return;
  const PartRow at = packed_row(map, tile_rows, tile, m * 16 + lane);
  std::byte* scales = place + W::kScalesAt;
  if (at.part < 0) return Published<F>::no_scales(scales, lane);
  const uint8_t* row = from.data[at.part] + at.row * from.row_bytes[at.part];
  Published<F>::scales(row, first, cols, from.scales[at.part].of_row(at.row), scales, lane);
}

// The weights of unit u of a chunk's 16 rows that a lane holds as operand: [instruction][pair][half].
template <class W>
struct ChunkValues {
  const std::byte* chunk;
  int lane;
  __device__ void of_unit(int, float (&out)[2][4][2]) const {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      uint32_t a[2][4] = {};
#pragma unroll
      for (int term = 0; term < W::kTerms; ++term) W::operand(chunk, s, term, lane, a[term]);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        out[s][i / 2][i % 2] = bf16_value(static_cast<uint16_t>(a[0][i / 2] >> (16 * (i % 2)))) +
                               bf16_value(static_cast<uint16_t>(a[1][i / 2] >> (16 * (i % 2))));
    }
  }
};
template <class W>
requires(W::kScaled) struct ChunkValues<W> {
  using Scales = typename W::Scales;
  uint32_t words[W::Codes::kWords];
  typename Scales::Row rows[2];
  __device__ ChunkValues(const std::byte* chunk, int lane) {
    load_words(chunk, lane, words);
    rows[0] = Scales::load(chunk + W::kScalesAt, lane / 4);
    rows[1] = Scales::load(chunk + W::kScalesAt, lane / 4 + 8);
  }
  __device__ void of_unit(int u, float (&out)[2][4][2]) const {
    constexpr float kPower = power_of_two(W::kXPower), kRest = power_of_two(W::kSumPower),
                    kOddRest = power_of_two(W::kSumPower - W::kOdd);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      uint32_t a[4];
      W::Codes::operand(words, u, s, a);
      const int group = (2 * u + s) / W::kGroupSteps;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const float scale = Scales::scale(rows[p % 2], group), min = Scales::min(rows[p % 2], group);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float operand = bf16_value(static_cast<uint16_t>(a[p] >> (16 * h)));
          const float code = operand * kPower * (p % 2 == 0 ? kRest : kOddRest) - W::kBias;
          out[s][p][h] = scale * code - min;
        }
      }
    }
  }
};

struct UnpackArgs {
  const std::byte* from = nullptr;
  RowMap map;
  int tile_rows = 0;
  int64_t cols = 0, stride = 0;
  int64_t chunks = 0, first_tile = 0, blocks = 0;  // chunks of a tile; warps' work
  int64_t first_row = 0, end_row = 0;
  std::byte* to[3] = {};
};

// A warp for a chunk of 16 rows.
template <class W>
__global__ void unpack_stream_kernel(const __grid_constant__ UnpackArgs args) {
  let_next_begin();
  wait_for_inputs();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t block = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (block >= args.blocks) return;
  const int sixteens = args.tile_rows / 16, m = static_cast<int>(block % sixteens);
  const int64_t of_all = block / sixteens, tile = args.first_tile + of_all / args.chunks, chunk = of_all % args.chunks;
  const ChunkValues<W> values{args.from + ((tile * args.chunks + chunk) * sixteens + m) * W::kBytes, lane};
  std::byte* rows[2] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const PartRow at = packed_row(args.map, args.tile_rows, tile, m * 16 + lane / 4 + 8 * i);
    if (at.part < 0 || at.row < args.first_row || at.row >= args.end_row) continue;
    std::byte* to = at.part == 0 ? args.to[0] : at.part == 1 ? args.to[1] : args.to[2];
    rows[i] = to + (at.row - args.first_row) * args.stride * 2;
  }
#pragma unroll
  for (int u = 0; u < W::kUnits; ++u) {
    const int64_t first = (chunk * W::kUnits + u) * kStreamCols;
    if (first >= args.stride) break;
    float of[2][4][2];
    values.of_unit(u, of);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (rows[i] == nullptr) continue;
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        const int64_t col = first + pair_col(W::kBySixteens, lane % 4, s, 0);
        uint32_t pair[2];
#pragma unroll
        for (int p = 0; p < 2; ++p)
          pair[p] = pack_bf16(col + 2 * p < args.cols ? of[s][2 * p + i][0] : 0.0f,
                              col + 2 * p + 1 < args.cols ? of[s][2 * p + i][1] : 0.0f);
        *reinterpret_cast<uint2*>(rows[i] + col * 2) = make_uint2(pair[0], pair[1]);
      }
    }
  }
}

PublishedParts published_parts(const DeviceProduct& product) {
  PublishedParts parts;
  for (int i = 0; i < product.n_parts; ++i) {
    const Weight& w = *product.parts[i].weight;
    parts.data[i] = reinterpret_cast<const uint8_t*>(w.data);
    parts.row_bytes[i] = w.row_bytes;
    parts.scales[i] = BesideScales(w);
  }
  return parts;
}

int64_t sixteens_of(const StreamedPart& part) { return stream_tiles(part.map, part.tile_rows) * (part.tile_rows / 16); }

constexpr int kThreads = 256;

}  // namespace

bool stream_packs(const Weight& weight) { return stream_has(weight); }
int stream_most_rows(Format format) {
  return visit_stream(format, [](auto w) { return decltype(w)::kMostRows; });
}

int64_t streamed_bytes(const StreamedPart& part, int64_t cols) {
  return visit_stream(part.format, [&](auto w) {
    using W = decltype(w);
    return sixteens_of(part) * stream_chunks(cols, W::kUnits) * W::kBytes;
  });
}

void pack_stream(const DeviceProduct& product, const StreamedPart& part, std::byte* to, const DeviceCtx& ctx) {
  const PublishedParts from = published_parts(product);
  const int64_t bytes = streamed_bytes(part, product.cols());
  if (part.format == Format::kBF16 || part.format == Format::kF16) {
    launch(ctx, pack_stream_kernel, {dim3(ceil_div(bytes / 16, kThreads)), dim3(kThreads)}, from, part.map,
           part.tile_rows, product.cols(), bytes / 16, reinterpret_cast<uint4*>(to));
    return;
  }
  visit_codes(part.format, [&](auto published, auto w) {
    using W = decltype(w);
    const int64_t blocks = bytes / W::kBytes;
    launch(ctx, pack_codes_kernel<decltype(published), W>, {dim3(ceil_div(blocks * 32, kThreads)), dim3(kThreads)},
           from, part.map, part.tile_rows, product.cols(), blocks, to);
  });
}

void unpack_stream(const StreamedPart& part, const UnpackRows& rows, const DeviceCtx& ctx) {
  UnpackArgs args;
  args.from = part.weights;
  args.map = part.map;
  args.tile_rows = part.tile_rows;
  args.cols = rows.cols;
  args.stride = rows.stride;
  args.first_tile = rows.first / part.tile_rows;
  const int64_t tiles = std::min(ceil_div(rows.end, part.tile_rows), stream_tiles(part.map, part.tile_rows));
  const int64_t of_tiles = (tiles - args.first_tile) * (part.tile_rows / 16);
  std::copy(rows.to, rows.to + 3, args.to);
  args.first_row = rows.first;
  args.end_row = rows.end;
  visit_stream(part.format, [&](auto w) {
    args.chunks = stream_chunks(rows.cols, decltype(w)::kUnits);
    args.blocks = args.chunks * of_tiles;
    launch(ctx, unpack_stream_kernel<decltype(w)>, {dim3(ceil_div(args.blocks * 32, kThreads)), dim3(kThreads)}, args);
  });
}

StreamArgs stream_args(const StreamRun& run) {
  const DeviceProduct& product = *run.product;
  const StreamedPart& part = *run.part;
  StreamArgs args;
  args.weights = part.weights;
  args.tiles = stream_tiles(part.map, part.tile_rows);
  args.from = product.streamed->from;
  args.to = product.streamed->to;
  args.chunks = static_cast<int>(
      visit_stream(part.format, [&](auto w) { return stream_chunks(product.cols(), decltype(w)::kUnits); }));
  args.units = static_cast<int>(stream_units(product.cols()));
  args.rows = static_cast<int>(run.rows);
  args.x = run.x;
  args.input = run.input;
  args.map = part.map;
  args.glu = product.glu;
  args.leads = run.leads;
  args.follows = run.follows;
  std::copy(run.outs, run.outs + 3, args.outs);
  if (part.map.order == RowOrder::kHeads) {
    args.heads = heads_args(product.heads);
    CHECK(args.heads.table.dtype == DType::kF32, "angles that are not f32");
  }
  return args;
}

}  // namespace ingot::cuda
