#include <algorithm>

#include "bench/cuda_ceilings.h"
#include "cuda/kernel.cuh"
#include "graph/cuda/cuda_random.h"
#include "matmul/cuda/cuda_blas.h"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 512;

// Reads n pieces, 64 bytes of each thread in flight, and writes them where kCopy. Else their sum goes out, and only
// where it is a value that no data has, so nothing is written.
template <bool kCopy>
__global__ void walk_kernel(const uint4* from, uint4* to, int64_t n) {
  uint32_t sum = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const auto take = [&](int64_t i, const uint4& v) {
    if constexpr (kCopy) {
      to[i] = v;
    } else {
      sum += (v.x ^ v.y) + (v.z ^ v.w);
    }
  };
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i + 3 * stride < n; i += 4 * stride) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = load_stream(from + i + k * stride);
#pragma unroll
    for (int k = 0; k < 4; ++k) take(i + k * stride, v[k]);
  }
  for (; i < n; i += stride) take(i, load_stream(from + i));
  if (!kCopy && sum == 0x9e3779b9u && to != nullptr) to[0].x = sum;
}

// Each block keeps a ring of bulk copies in flight, and nobody reads what they bring. On an H200 this reaches 4,590
// GB/s where loads into registers end at 4,310, whatever their number, order and grid.
constexpr int kStages = 6, kPiece = 16 << 10;  // two blocks a multiprocessor
constexpr int kRingBytes = kStages * kPiece + kStages * static_cast<int>(sizeof(CopyBarrier));

__global__ void bulk_kernel(const std::byte* from, int64_t pieces) {
  if (threadIdx.x != 0) return;
  std::byte* ring = shared_memory<std::byte>();
  auto* barriers = reinterpret_cast<CopyBarrier*>(ring + kStages * kPiece);
  for (int s = 0; s < kStages; ++s) barrier_init(barriers + s, 1);
  barrier_inits_done();
  const int64_t blocks = gridDim.x, first = blockIdx.x;
  const int64_t mine = first < pieces ? (pieces - first + blocks - 1) / blocks : 0;
  const auto give = [&](int64_t i) {
    CopyBarrier* barrier = barriers + i % kStages;
    barrier_expect(barrier, kPiece);
    copy_bulk(ring + i % kStages * kPiece, from + (first + i * blocks) * kPiece, kPiece, barrier);
  };
  for (int64_t i = 0; i < kStages && i < mine; ++i) give(i);
  for (int64_t i = 0; i < mine; ++i) {
    barrier_wait(barriers + i % kStages, static_cast<uint32_t>(i / kStages % 2));
    if (i + kStages < mine) give(i + kStages);
  }
}

// GB/s of the best of several runs of `body`, which moves `bytes`.
template <class F>
double best_gbs(double bytes, StreamRef stream, F&& body) {
  double best = 0;
  for (int pass = 0; pass < 6; ++pass) {
    Event begin, end;
    begin.record(stream);
    body();
    end.record(stream);
    end.synchronize();
    const double seconds = end.seconds_since(begin);
    if (pass > 0 && seconds > 0) best = std::max(best, bytes / seconds / 1e9);  // the first loads the kernel
  }
  return best;
}

DeviceCtx plain_ctx(StreamRef stream) {
  DeviceCtx ctx;
  ctx.stream = stream;
  ctx.overlap = false;
  return ctx;
}

// GFLOP/s of a product of two bf16 matrices of 8,192 × 8,192; 0 where there is no room for them.
double measure_products(Blas& blas, StreamRef stream) {
  constexpr int64_t kSize = 8192;
  constexpr int64_t kBytes = kSize * kSize * 2;
  if (device_facts().free_bytes < 4 * kBytes) return 0;
  const DeviceMemory x(kBytes), weights(kBytes), out(kBytes);
  // No zeros: they would draw less power, and the clock would rise.
  Weight random;
  random.format = Format::kBF16;
  random.rows = random.cols = kSize;
  random.random = {.key = 1, .range = 1};
  fill_random(random, x.data(), stream);
  fill_random(random, weights.data(), stream);
  Blas::Product product;
  product.x = x.data();
  product.x_stride = product.out_stride = kSize;
  product.weights = weights.data();
  product.out = out.data();
  product.rows = product.n = product.cols = kSize;
  blas.measure(product, stream);
  const double size = kSize;
  return best_gbs(2 * size * size * size, stream, [&] { blas.run(product, stream); });
}

}  // namespace

DeviceCeilings measure_ceilings(Blas* blas, StreamRef stream) {
  const DeviceFacts facts = device_facts();
  // Far beyond the L2 of 50 MiB, and long enough that a launch counts for nothing: 1 GiB shows 2 % less. The emulator
  // has other things to do.
  const int64_t most = is_emulated() ? int64_t{64} << 10 : int64_t{4} << 30;
  const int64_t bytes = std::min(most, facts.free_bytes / 4) / kPiece * kPiece;
  DeviceCeilings result;
  if (bytes == 0) return result;
  const DeviceMemory from(bytes), to(bytes);
  fill_bytes(from.data(), 1, bytes, stream);
  const DeviceCtx ctx = plain_ctx(stream);
  const dim3 grid(static_cast<unsigned>(facts.multiprocessors * 4));
  const auto* source = reinterpret_cast<const uint4*>(from.data());
  auto* target = reinterpret_cast<uint4*>(to.data());
  result.read_gbs = best_gbs(static_cast<double>(bytes), stream, [&] {
    launch(ctx, walk_kernel<false>, {grid, dim3(kThreads)}, source, target, bytes / 16);
  });
  if (facts.major >= 9) {
    const dim3 two(static_cast<unsigned>(facts.multiprocessors * 2));
    const double bulk = best_gbs(static_cast<double>(bytes), stream, [&] {
      launch(ctx, bulk_kernel, {two, dim3(32), kRingBytes}, from.data(), bytes / kPiece);
    });
    result.read_gbs = std::max(result.read_gbs, bulk);
  }
  result.copy_gbs = best_gbs(2.0 * static_cast<double>(bytes), stream, [&] {
    launch(ctx, walk_kernel<true>, {grid, dim3(kThreads)}, source, target, bytes / 16);
  });
  if (blas != nullptr) result.bf16_gflops = measure_products(*blas, stream);
  return result;
}

}  // namespace ingot::cuda
