// Kernels for the tests of the emulator and of the wrappers that it stands in for: each shows one instruction.
#include "cuda/kernel.cuh"
#include "cuda/probe.h"

namespace ingot::cuda {
namespace {

// c[16, 8] = a[16, 16] · b[16, 8] in bf16, a and b given as floats, through shared memory and ldmatrix.
__global__ void product(const float* a, const float* b, float* c) {
  __shared__ __align__(16) uint16_t as[16 * 16];
  __shared__ __align__(16) uint16_t bs[16 * 8];
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) as[i] = bf16_bits(a[i]);
  for (int i = lane; i < 128; i += 32) bs[i] = bf16_bits(b[i]);
  __syncwarp();
  uint32_t ra[4], rb[4];
  load_matrices(ra, as + (lane % 16) * 16 + lane / 16 * 8);
  load_matrices_transposed(rb, bs + (lane % 16) * 8);
  float d[4] = {};
  const uint32_t two[2] = {rb[0], rb[1]};
  multiply_bf16(d, ra, two);
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}

// out[i] = the sum of all x before and with i, n = blockDim values; x comes in by two bulk copies.
__global__ void scan(const float* x, float* out) {
  float* room = shared_memory<float>();
  const int n = blockDim.x, i = threadIdx.x;
  __shared__ CopyBarrier barrier;
  if (i == 0) {
    barrier_init(&barrier, 1);
    barrier_inits_done();
  }
  __syncthreads();
  for (int turn = 0; turn < 2; ++turn) {
    if (i == 0) {
      barrier_expect(&barrier, n * 4);
      copy_bulk(room, x, n * 2, &barrier);
      copy_bulk(room + n / 2, x + n / 2, n * 2, &barrier);
    }
    barrier_wait(&barrier, turn);
    __syncthreads();
  }
  float sum = room[i];
  for (int d = 1; d < 32; d *= 2) {
    const float other = __shfl_up_sync(0xffffffffu, sum, d);
    if (i % 32 >= d) sum += other;
  }
  __shared__ float warps[32];
  if (i % 32 == 31) warps[i / 32] = sum;
  __syncthreads();
  for (int w = 0; w < i / 32; ++w) sum += warps[w];
  out[i] = sum;
}

// Every block adds 1 for each of its odd threads; the last to arrive writes the total and leaves the ticket at zero.
__global__ void count_odd(uint32_t* ticket, uint32_t* total, uint32_t* out) {
  __shared__ uint32_t last;
  const uint32_t odd = __ballot_sync(0xffffffffu, threadIdx.x % 2);
  if (threadIdx.x % 32 == 0) atomicAdd(total, static_cast<uint32_t>(__popc(odd)));
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (last != 0 && threadIdx.x == 0) *out = *total;
}

// Every block hands 1 + its index to the one before it, and in a second round what it was handed.
__global__ void pass_on(float* handed, float* out) {
  wait_for_inputs();
  if (threadIdx.x != 40) return;
  const unsigned me = blockIdx.x, blocks = gridDim.x, next = (me + 1) % blocks;
  const float first = static_cast<float>(me + 1);
  hand_over(handed + me * 4, make_float4(first, 0, 0, first));
  float4 got[1];
  take_over({handed + next * 4}, got);
  hand_over(handed + (blocks + me) * 4, make_float4(got[0].x, got[0].y, got[0].z, got[0].w));
  float4 again[1];
  take_over({handed + (blocks + next) * 4}, again);
  out[me] = again[0].x + again[0].y + again[0].w;
}

#ifndef INGOT_CUDA_EMULATED
__global__ void copy_late(uint4* to, const uint4* from, int64_t n) {
  let_next_begin();
  wait_for_inputs();
  for (int i = 0; i < 100; ++i) __nanosleep(1000);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}
#endif

}  // namespace

void probe_product(const DeviceCtx& ctx, const float* a, const float* b, float* c) {
  launch(ctx, product, {1, 32}, a, b, c);
}
void probe_scan(const DeviceCtx& ctx, const float* x, int n, float* out) { launch(ctx, scan, {1, n, n * 4}, x, out); }
void probe_count(const DeviceCtx& ctx, int blocks, uint32_t* ticket, uint32_t* total, uint32_t* out) {
  launch(ctx, count_odd, {blocks, 96}, ticket, total, out);
}
void probe_handing(const DeviceCtx& ctx, int blocks, float* out) {
  launch(ctx, pass_on, {.grid = blocks, .threads = 64, .shared = 0, .together = true}, ctx.handed, out);
}
void probe_late(const DeviceCtx& ctx, std::byte* to, const std::byte* from, int64_t bytes) {
#ifdef INGOT_CUDA_EMULATED
  emulated_work(ctx.stream, [=] { emulated::write_late(to, from, static_cast<size_t>(bytes)); });
#else
  launch(ctx, copy_late, {1, 256}, reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from), bytes / 16);
#endif
}

}  // namespace ingot::cuda
