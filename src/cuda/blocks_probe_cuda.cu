// Kernels for the tests of what blocks do with each other.
#include "cuda/blocks.cuh"
#include "cuda/probe.h"

namespace ingot::cuda {
namespace {

__global__ void match(const uint32_t* x, uint32_t* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = __match_any_sync(0xffffffffu, x[i]);
}

// words[0] counts the blocks; words[1 + t] is the sum of the one that came as number t. The upper bit: it is there.
constexpr uint64_t kThere = uint64_t{1} << 63;

__global__ void chain(uint64_t* words, uint64_t* out) {
  uint64_t* turn = shared_memory<uint64_t>();
  if (threadIdx.x == 0) *turn = atomicAdd(reinterpret_cast<unsigned long long*>(words), 1ull);
  __syncthreads();
  const uint64_t mine = *turn;
  if (threadIdx.x != 0) return;
  uint64_t before = kThere;
  while (mine > 0 && ((before = look(words + mine)) & kThere) == 0) look_again();
  const uint64_t sum = (before & ~kThere) + mine + 1;
  out[mine] = sum;
  publish(words + 1 + mine, sum | kThere);
}

__global__ void pass_in_cluster(int size, const uint32_t* x, uint32_t* out) {
  uint32_t* room = shared_memory<uint32_t>();
  const unsigned i = blockIdx.x * 64 + threadIdx.x;
  room[threadIdx.x] = x[i];
  cluster_sync();
  out[i] = *of_cluster(room + threadIdx.x, (cluster_rank() + 1) % size);
  cluster_sync();
}

}  // namespace

void probe_match(const DeviceCtx& ctx, const uint32_t* x, int n, uint32_t* out) {
  launch(ctx, match, {n / 32, 32}, x, out);
}
void probe_chain(const DeviceCtx& ctx, int blocks, uint64_t* words, uint64_t* out) {
  launch_in_turn(ctx, chain, {blocks, 64, 8}, words, out);
}
void probe_clusters(const DeviceCtx& ctx, int clusters, int size, const uint32_t* x, uint32_t* out) {
  launch_clusters(ctx, size, pass_in_cluster, {clusters * size, 64, 256}, size, x, out);
}

}  // namespace ingot::cuda
