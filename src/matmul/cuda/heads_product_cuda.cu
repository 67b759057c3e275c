// Few rows: a warp for 16 outputs of a head and eight rows, straight from the packed weights; many by the tiles of
// tall/tall_kernel.cuh, each head a group; and whatever has no packed copy by any_cuda.cu's product.
#include <type_traits>

#include "base/check.h"
#include "matmul/cuda/heads.cuh"
#include "matmul/cuda/stream/stream_formats.cuh"
#include "matmul/cuda/tall/tall.cuh"

namespace ingot::cuda {
namespace {

constexpr int kWarps = 4, kOctet = 8, kFewInputs = 1408;

struct HeadsFew {
  const std::byte* weights = nullptr;
  View x, out;
  int inputs = 0, outputs = 0, tail = 0;  // K, N and what is copied
  int rows = 0, chunks = 0;

  __device__ int64_t x_col(int head) const { return static_cast<int64_t>(head) * (inputs + tail); }
  __device__ int64_t out_col(int head) const { return static_cast<int64_t>(head) * (outputs + tail); }
};

__device__ inline void copy_tail(const HeadsFew& a, int head, int row0) {
  for (int i = static_cast<int>(threadIdx.x); i < kOctet * a.tail; i += kWarps * 32) {
    const int row = row0 + i / a.tail, c = i % a.tail;
    if (row < a.rows) a.out.set(row, a.out_col(head) + a.outputs + c, a.x.get(row, a.x_col(head) + a.inputs + c));
  }
}

// x of a head and eight rows as bf16 in shared memory: 64 bytes between rows, so that the eight lanes of a load read
// different banks.
__host__ __device__ constexpr int x_stride(int inputs) { return inputs + 32; }
__device__ inline void stage_x(const HeadsFew& a, int head, int row0, uint16_t* to) {
  const int fours = a.inputs / 4;
  for (int i = static_cast<int>(threadIdx.x); i < kOctet * fours; i += kWarps * 32) {
    const int row = i / fours, col = i % fours * 4;
    const std::byte* from = a.x.row(min(row0 + row, a.rows - 1));
    const int64_t at = a.x_col(head) + col;
    uint2 pairs;
    if (a.x.dtype == DType::kBF16) {
      pairs = *reinterpret_cast<const uint2*>(from + at * 2);
    } else {
      const float4 v = *reinterpret_cast<const float4*>(from + at * 4);
      pairs.x = pack_bf16(v.x, v.y), pairs.y = pack_bf16(v.z, v.w);
    }
    *reinterpret_cast<uint2*>(to + row * x_stride(a.inputs) + col) = pairs;
  }
}

// The weights of a block are all asked for at once, before the kernels before this one have ended.
template <class W>
__global__ void __launch_bounds__(32 * kWarps) heads_few(const __grid_constant__ HeadsFew a) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int head = static_cast<int>(blockIdx.y), row0 = static_cast<int>(blockIdx.z) * kOctet;
  const int sixteen = static_cast<int>(blockIdx.x) * kWarps + warp, of_head = a.outputs / 16;
  const int g = lane / 4, t = lane % 4, units = a.inputs / kStreamCols, bytes = a.chunks * W::kBytes;
  std::byte* weights = shared_memory<std::byte>() + warp * bytes;
  uint16_t* x = reinterpret_cast<uint16_t*>(shared_memory<std::byte>() + kWarps * bytes);
  let_next_begin();
  if (sixteen < of_head) {
    const std::byte* from = a.weights + (int64_t{head} * of_head + sixteen) * bytes;
    for (int i = lane * 16; i < bytes; i += 32 * 16) copy_async(weights + i, from + i);
  }
  commit_copies();
  wait_for_inputs();
  if (blockIdx.x == 0) copy_tail(a, head, row0);
  stage_x(a, head, row0, x);
  copies_done<0>();
  __syncthreads();
  if (sixteen >= of_head) return;
  const uint16_t* row = x + g * x_stride(a.inputs) + (W::kBySixteens ? 4 * t : 8 * t);
  float sums[1][1][4] = {};
#pragma unroll 2
  for (int c = 0; c < a.chunks; ++c) {
    const std::byte* const chunk[1] = {weights + c * W::kBytes};
    const auto x_of = [&](int u, uint4(&to)[1]) {
      const int unit = c * W::kUnits + u;
      uint2 v[2] = {};
      if (unit < units) {
        v[0] = *reinterpret_cast<const uint2*>(row + unit * kStreamCols);
        v[1] = *reinterpret_cast<const uint2*>(row + unit * kStreamCols + (W::kBySixteens ? 16 : 4));
      }
      to[0] = make_uint4(v[0].x, v[0].y, v[1].x, v[1].y);
    };
    multiply_chunk<W, 1, 1>(chunk, x_of, lane, sums);
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int to = row0 + 2 * t + e % 2;
    const float by = power_of_two(e < 2 ? W::kSumPower : W::kSumPower - W::kOdd);
    if (to < a.rows) a.out.set(to, a.out_col(head) + sixteen * 16 + g + e / 2 * 8, sums[0][0][e] * by);
  }
}

template <class W>
constexpr bool kHas = W::kTall || std::is_same_v<W, StreamBF16>;

// In pieces of 16 bytes.
bool is_aligned(const Matrix& x, int64_t apart) {
  return (x.dtype == DType::kBF16 || x.dtype == DType::kF32) && apart % 8 == 0 && x.stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

void run_few(const HeadsProduct& product, int64_t rows, const DeviceCtx& ctx) {
  HeadsFew args;
  args.weights = product.packed->weights;
  args.x = View(product.x);
  args.out = View(product.out);
  args.inputs = static_cast<int>(product.weight->cols);
  args.outputs = product.outputs();
  args.tail = product.tail;
  args.rows = static_cast<int>(rows);
  const dim3 grid(ceil_div(args.outputs / 16, kWarps), static_cast<unsigned>(product.heads), ceil_div(rows, kOctet));
  visit_stream(product.packed->format, [&](auto w) {
    using W = decltype(w);
    if constexpr (kHas<W>) {
      args.chunks = static_cast<int>(stream_chunks(args.inputs, W::kUnits));
      const int64_t shared = int64_t{kWarps} * args.chunks * W::kBytes + int64_t{kOctet} * x_stride(args.inputs) * 2;
      launch(ctx, heads_few<W>, {grid, dim3(32 * kWarps), shared}, args);
    }
  });
}

void run_many(const HeadsProduct& product, int64_t rows, const DeviceCtx& ctx) {
  const int outputs = product.outputs(), inputs = static_cast<int>(product.weight->cols);
  CHECK(heads_scratch(product, rows) <= ctx.scratch_bytes, "{} bytes of scratch", ctx.scratch_bytes);
  TallGroupsRun run;
  run.part = *product.packed;
  run.part.map.rows[0] = outputs;
  run.cols = inputs;
  run.x_rows = rows <= 32 ? 32 : rows <= 64 ? 64 : rows <= 128 ? 128 : kTallRows;
  run.x = View(product.x);
  run.apart = inputs + product.tail;
  run.tail = product.tail;
  TallGroups& groups = run.groups;
  groups.stride = streamed_bytes(run.part, inputs);
  groups.row_tiles = static_cast<int>(ceil_div(rows, run.x_rows));
  groups.tiles = int64_t{groups.row_tiles} * product.heads;
  groups.rows = static_cast<int>(rows);
  groups.out = View(product.out);
  groups.out_apart = outputs + product.tail;
  groups.outputs = outputs;
  run_tall_groups(run, ctx.scratch, ctx);
}

// The columns that no product makes.
__global__ void copy_tails(View from, View to, int inputs, int outputs, int tail, int heads, int64_t rows) {
  let_next_begin();
  wait_for_inputs();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = i / (heads * tail);
  const int head = static_cast<int>(i % (heads * tail)) / tail, c = static_cast<int>(i % tail);
  if (row >= rows) return;
  to.set(row, static_cast<int64_t>(head) * (outputs + tail) + outputs + c,
         from.get(row, static_cast<int64_t>(head) * (inputs + tail) + inputs + c));
}

// The same in pieces of 16 bytes, `inputs` … `tail` counted in them; from and to have rows of so many.
__global__ void copy_tail_pieces(const uint4* from, int64_t from_stride, uint4* to, int64_t to_stride, int inputs,
                                 int outputs, int tail, int heads, int64_t rows) {
  let_next_begin();
  wait_for_inputs();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = i / (heads * tail);
  const int of_row = static_cast<int>(i - row * (heads * tail)), head = of_row / tail, c = of_row - head * tail;
  if (row < rows)
    to[row * to_stride + head * (outputs + tail) + outputs + c] =
        from[row * from_stride + head * (inputs + tail) + inputs + c];
}

void run_published(const HeadsProduct& product, int64_t rows, const DeviceCtx& ctx) {
  const int outputs = product.outputs(), inputs = static_cast<int>(product.weight->cols);
  PartOut out;
  out.out = View(product.out);
  const AnyGroups groups{.count = product.heads, .x_apart = inputs + product.tail, .out_apart = outputs + product.tail};
  run_any(View(product.x), *product.weight, out, rows, ctx, groups);
  copy_head_tails(product, rows, ctx);
}

}  // namespace

std::shared_ptr<StreamedPart> pack_heads(const HeadsProduct& product, const DeviceCtx& device,
                                         const Allocate& allocate) {
  const Weight& weight = *product.weight;
  const int64_t apart = weight.cols + product.tail;
  if (device.arch != 90 || device.batch_invariant || weight.format == Format::kF32 || !stream_packs(weight) ||
      !tall_has_groups(weight.format) || product.outputs() % 16 != 0 || weight.cols % kStreamCols != 0 ||
      !is_aligned(product.x, apart))
    return nullptr;
  StreamedPart part;
  part.format = weight.format;
  part.tile_rows = 16;  // a head begins with a tile
  part.map.rows[0] = weight.rows;
  std::byte* to = allocate(streamed_bytes(part, weight.cols));
  part.weights = to;
  DeviceProduct packed;
  packed.n_parts = 1;
  packed.input.x.cols = weight.cols;
  packed.parts[0].weight = &weight;
  DeviceCtx alone = device;
  alone.overlap = false;
  pack_stream(packed, part, to, alone);
  return std::make_shared<StreamedPart>(part);
}

int64_t heads_scratch(const HeadsProduct& product, int64_t rows) {
  return tall_groups_scratch(rows * product.heads, product.weight->cols);
}

void copy_head_tails(const HeadsProduct& product, int64_t rows, const DeviceCtx& ctx) {
  const int outputs = product.outputs(), inputs = static_cast<int>(product.weight->cols), tail = product.tail;
  if (tail == 0 || rows == 0) return;
  constexpr int kThreads = 256;
  const Matrix &x = product.x, &out = product.out;
  const int piece = 16 / static_cast<int>(dtype_bytes(x.dtype));
  const auto whole = [&](int64_t elements) { return elements % piece == 0; };
  if (x.dtype == out.dtype && whole(inputs) && whole(outputs) && whole(tail) && whole(x.stride) && whole(out.stride) &&
      reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && reinterpret_cast<uintptr_t>(out.data) % 16 == 0) {
    launch(ctx, copy_tail_pieces, {dim3(ceil_div(rows * product.heads * (tail / piece), kThreads)), dim3(kThreads)},
           reinterpret_cast<const uint4*>(x.data), x.stride / piece, reinterpret_cast<uint4*>(out.data),
           out.stride / piece, inputs / piece, outputs / piece, tail / piece, product.heads, rows);
    return;
  }
  launch(ctx, copy_tails, {dim3(ceil_div(rows * product.heads * tail, kThreads)), dim3(kThreads)}, View(x), View(out),
         inputs, outputs, tail, product.heads, rows);
}

void multiply_heads(const HeadsProduct& product, int64_t rows, const DeviceCtx& ctx) {
  if (rows == 0) return;
  if (product.packed == nullptr) return run_published(product, rows, ctx);
  // What a block of few rows holds: weights of 64 outputs, at most two bytes each, and x.
  if (rows <= kStreamRows && product.weight->cols <= kFewInputs) return run_few(product, rows, ctx);
  run_many(product, rows, ctx);
}

}  // namespace ingot::cuda
