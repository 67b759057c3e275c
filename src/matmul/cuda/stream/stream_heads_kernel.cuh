// The kernel of stream_heads.cuh.
#pragma once

#include <algorithm>

#include "matmul/cuda/stream/piece_ring.cuh"
#include "matmul/cuda/stream/stream_heads.cuh"

namespace ingot::cuda {
namespace {

template <class G, class D>
inline constexpr int kHeadsPiece = G::kBytes > D::kBytes ? G::kBytes : D::kBytes;
template <class G, class D>
inline constexpr int kHeadsStages = std::clamp(kHeadsRing / (kPieceWarps * kHeadsPiece<G, D>), 2, 12);

// The block's packed rows of the first format, two at a time, then those of the second.
template <class G, class D>
struct HeadsRing : PieceRing<HeadsRing<G, D>, kHeadsPiece<G, D>, kHeadsStages<G, D>> {
  const StreamHeadsArgs& args;
  PieceShare shares[2];
  int chunk, second = 0;

  __device__ HeadsRing(const StreamHeadsArgs& of, std::byte* ring, const PieceShare& one, const PieceShare& two)
      : PieceRing<HeadsRing<G, D>, kHeadsPiece<G, D>, kHeadsStages<G, D>>(ring), args(of), shares{one, two} {
    chunk = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int f = 0; f < 2; ++f)
      if (chunk >= args.of[f].chunks) shares[f].first = shares[f].end;
  }
  __device__ bool ask() {
    if (shares[0].first < shares[0].end) return ask_of<G>(args.of[0], shares[0]);
    return shares[1].first < shares[1].end && ask_of<D>(args.of[1], shares[1]);
  }

 private:
  template <class W>
  __device__ bool ask_of(const HeadsWeights& of, PieceShare& share) {
    if (threadIdx.x % 32 == 0) {
      // Of an odd number the last has no second.
      const int sixteen = share.first + second, tile = sixteen / of.sixteens;
      const int64_t at = (int64_t{tile} * of.chunks + chunk) * of.sixteens + (sixteen - tile * of.sixteens);
      this->copy(of.weights + at * W::kBytes, sixteen < share.end ? W::kBytes : 0);
    }
    second ^= 1;
    if (second != 0) return true;
    chunk += kPieceWarps;
    if (chunk >= of.chunks) chunk = static_cast<int>(threadIdx.x) / 32, share.first += 2;
    return true;
  }
};

// A share of packed rows, its sums of each warp to `sums`: [sixteen][row of x].
template <class W, class Ring>
__device__ void multiply_share(const StreamHeadsArgs& args, const HeadsWeights& of, Ring& ring, const std::byte* x,
                               const PieceShare& share, float* sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::byte* row = x + min(lane / 4, args.rows - 1) * heads_x_row(args.units);
  for (int i = 0; i < share.count(); i += 2) {
    float acc[2][1][4] = {};
    for (int c = warp; c < of.chunks; c += kPieceWarps) {
      const std::byte* first_piece = ring.take();
      const std::byte* pieces[2] = {first_piece, ring.take(1)};
      multiply_chunk<W, 2, 1>(
          pieces, [&](int u, uint4(&to)[1]) { to[0] = unit_of<W>(row, c * W::kUnits + u, args.units); }, lane, acc);
      __syncwarp();
      ring.give_back(2);
    }
    for (int r = 0; r < args.rows; ++r) {
      float* to = sums + (i * args.rows + r) * 16 * kSumRow;
      leave_sums<W>(acc[0][0], r, to);
      if (i + 1 < share.count()) leave_sums<W>(acc[1][0], r, to + args.rows * 16 * kSumRow);
    }
  }
}

// What the block has made of a share to those that end heads: four values for four threads.
__device__ inline void hand_over_share(const StreamHeadsArgs& args, const HeadsWeights& of, const PieceShare& share,
                                       const float* scale, const float* sums) {
  const int count = share.count() * args.rows * 4;  // fours
  for (int begin = 0; begin < count * 4; begin += kPieceThreads) {
    const int i = begin + static_cast<int>(threadIdx.x), four = i / 4;
    if (i / 32 * 32 >= count * 4) break;
    float v[4] = {};
    if (four < count) {
      const float* from = sums + four * 4 * kSumRow + i % 4 * (kPieceWarps / 4);
#pragma unroll
      for (int w = 0; w < kPieceWarps / 4; ++w) {
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] += from[k * kSumRow + w];
      }
    }
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] += __shfl_xor_sync(0xffffffffu, v[k], d);
    }
    if (four >= count || i % 4 != 0) continue;
    const int row = four / 4 % args.rows, part_of = share.first + four / 4 / args.rows;
    int part = 0, sixteen = part_of;
    while (part < 2 && sixteen >= of.rows[part]) sixteen -= of.rows[part++];
    const float by = scale[row];
    hand_over(args.handed + row * args.cols + of.first_col[part] + sixteen * 16 + four % 4 * 4,
              make_float4(v[0] * by, v[1] * by, v[2] * by, v[3] * by));
  }
}

// Heads, 32 items for a warp of a block of their own as long as there are blocks.
__device__ inline void finish_share(const StreamHeadsArgs& args) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int items = head_items(args.heads), each = (items + 31) / 32;
  const int first_k = args.heads.q.cols, first_v = first_k + args.heads.k.cols;
  for (int w = static_cast<int>(blockIdx.x) + warp * static_cast<int>(gridDim.x); w < each * args.rows;
       w += kPieceWarps * static_cast<int>(gridDim.x)) {
    const int row = w / each;
    finish_item<true>(
        args.heads, row, args.heads.to.slot[row], w % each * 32 + lane, items,
        [&](int part, int64_t col, int apart, float(&a)[8], float(&b)[8]) {
          float* from = args.handed + row * args.cols + (part == 0 ? 0 : part == 1 ? first_k : first_v) + col;
          float* const fours[4] = {from, from + 4, from + apart, from + apart + 4};
          float4 v[4];
          take_over(fours, v);
#pragma unroll
          for (int f = 0; f < 2; ++f) {
            a[4 * f] = v[f].x, a[4 * f + 1] = v[f].y, a[4 * f + 2] = v[f].z, a[4 * f + 3] = v[f].w;
            b[4 * f] = v[2 + f].x, b[4 * f + 1] = v[2 + f].y;
            b[4 * f + 2] = v[2 + f].z, b[4 * f + 3] = v[2 + f].w;
          }
        });
  }
}

template <class G, class D>
__global__ void __launch_bounds__(kPieceThreads, 1) stream_heads(const __grid_constant__ StreamHeadsArgs args) {
  using Ring = HeadsRing<G, D>;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  std::byte* memory = shared_memory<std::byte>();
  std::byte* x = memory + Ring::kAll + Ring::kBarriers;
  const int x_row = heads_x_row(args.units);
  float* scale = reinterpret_cast<float*>(x + args.rows * x_row);
  float* sums = scale + kStreamRows;
  let_next_begin();
  const PieceShare share = PieceShare::of(args.of[0].all + args.of[1].all);
  const PieceShare one = share.within(0, args.of[0].all),
                   two = share.within(args.of[0].all, args.of[0].all + args.of[1].all);
  Ring ring(args, memory, one, two);
  ring.fill();
  wait_for_inputs();
  for (int i = thread; i < args.rows * args.units * 4; i += kPieceThreads) {
    const int row = i / (args.units * 4), at = (i - row * args.units * 4) * 16;
    copy_async(x + row * x_row + at, args.from.x.row(row) + at);
  }
  commit_copies();
  if (warp < args.rows) {
    float sum = 0;
    for (int j = lane; j < args.from.parts; j += 32) sum += args.from.squares[warp * args.from.parts + j];
    sum = warp_sum(sum);
    if (lane == 0) scale[warp] = inverse_root(sum, args.from.x.cols, args.from.eps);
  }
  copies_done<0>();
  __syncthreads();
  multiply_share<G>(args, args.of[0], ring, x, one, sums);
  multiply_share<D>(args, args.of[1], ring, x, two, sums + one.count() * args.rows * 16 * kSumRow);
  __syncthreads();
  hand_over_share(args, args.of[0], one, scale, sums);
  hand_over_share(args, args.of[1], two, scale, sums + one.count() * args.rows * 16 * kSumRow);
  finish_share(args);
}

}  // namespace

template <class G, class D>
void run_heads_formats(StreamHeadsArgs args, const DeviceCtx& ctx) {
  using Ring = HeadsRing<G, D>;
  args.of[0].chunks = static_cast<int>(stream_chunks(int64_t{args.units} * kStreamCols, G::kUnits));
  args.of[1].chunks = static_cast<int>(stream_chunks(int64_t{args.units} * kStreamCols, D::kUnits));
  const int most = most_of_share(args.of[0].all + args.of[1].all, ctx.multiprocessors);
  static_assert(Ring::kAll <= kHeadsRing);
  const int64_t shared = heads_shared(Ring::kAll + Ring::kBarriers, args.rows, args.units, most);
  // More than half of a multiprocessor's (stream_kernel.cuh).
  constexpr int64_t kOneBlock = 116 << 10;
  launch(ctx, stream_heads<G, D>, {dim3(ctx.multiprocessors), dim3(kPieceThreads), std::max(kOneBlock, shared), true},
         args);
}

#define INGOT_HEADS_KERNELS(ONE, TWO) \
  template void run_heads_formats<Stream##ONE, Stream##TWO>(StreamHeadsArgs args, const DeviceCtx& ctx);

}  // namespace ingot::cuda
