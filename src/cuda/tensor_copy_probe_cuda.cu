// The kernel for the test of tensor_copy.cuh.
#include "cuda/probe.h"
#include "cuda/tensor_copy.cuh"

namespace ingot::cuda {
namespace {

constexpr int kBox = kTensorProbeRows, kBoxBytes = kBox * 128;

// What lies in shared memory as rows of 64 values.
__device__ void write_rows(const std::byte* shared, int rows, uint16_t* out) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * 64; i += static_cast<int>(blockDim.x)) {
    const int r = i / 64, c = i % 64;
    out[i] = *reinterpret_cast<const uint16_t*>(shared + r * 128 + kv_piece(r, c / 8) * 16 + c % 8 * 2);
  }
}

__global__ void boxes(const __grid_constant__ TensorMap map, int size, int row, int col, uint16_t* out) {
  std::byte* shared = shared_memory<std::byte>();
  auto* full = reinterpret_cast<CopyBarrier*>(shared + size * kBoxBytes);
  CopyBarrier* empty = full + 1;
  const int rank = cluster_rank();
  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    barrier_init(empty, size);
    barrier_inits_done();
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    barrier_expect(full, static_cast<uint32_t>(size * kBoxBytes));
    copy_tensor(shared + rank * kBoxBytes, map, col, row + rank * kBox, full, (1u << size) - 1);
  }
  barrier_wait(full, 0);
  uint16_t* to = out + static_cast<int64_t>(blockIdx.x) * (size + 1) * kBox * 64;
  write_rows(shared, size * kBox, to);
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int r = 0; r < size; ++r) barrier_arrive_at(empty, r);
    barrier_wait(empty, 0);  // all have read what they were given
    barrier_expect(full, kBoxBytes);
    copy_tensor(shared, map, col, row + rank, full);
  }
  barrier_wait(full, 1);
  write_rows(shared, kBox, to + size * kBox * 64);
  cluster_sync();
}

}  // namespace

void probe_tensor_copies(const DeviceCtx& ctx, const TensorProbe& p, const uint16_t* x, uint16_t* out) {
  const TensorMap map = make_tensor_map(reinterpret_cast<const std::byte*>(x), p.rows, p.cols, p.cols * 2, kBox);
  launch_clusters(ctx, p.size, boxes, {p.size, 64, p.size * kBoxBytes + 16}, map, p.size, p.row, p.col, out);
}

}  // namespace ingot::cuda
