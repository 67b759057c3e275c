// What every CUDA version of an op is given. An op's folder defines, in <op>_cuda.cu,
//   namespace ingot::cuda { void run(const Op&, Ctx&); }
// and, where something is chosen or packed once, an overload of cuda::prepare(Op&, Prepare&), declared in ops.h.
//
// run() gives kernels to a stream and returns. It may be recorded into a graph that is given again for other batches of
// the same bucket, so grids depend on the bucket alone (Ctx::shape, seqs, q_rows); true lengths are read on the device.
// Tensors, weights (in their published format) and the KV cache are in the device's memory.
//
// The KV cache on the device: a page holds, for each KV head, the keys of its slots one row after another, and the
// values likewise: [kv head][slot][dim] (not the CPU's groups of keys; sizes and addresses are KvLayer's). Rows of
// narrow types whose length is a multiple of 64 elements are stored with their 16-byte pieces permuted, and q8_0 has
// its scales behind all rows of a page's head: see kv_rows.cuh.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "cuda/device_ctx.h"
#include "cuda/peers.h"
#include "ops/ctx.h"
#include "tensor/cuda.h"

namespace ingot {
class Comm;
}

namespace ingot::cuda {

inline constexpr int kMaxGroups = 8;

// The arrays of ops/batch.h on the device, at fixed addresses. Rows and seqs beyond the true counts are padding: such a
// row has token 0, position 0, slot -1 (its keys and values are not written), and such a seq no rows and kv_len 0.
struct DeviceBatch {
  struct Group {
    const int32_t* page_table = nullptr;  // [S, pages_per_seq]
    const int32_t* slot = nullptr;        // [T]
  };
  const int32_t* counts = nullptr;     // [3] rows, seqs and logit rows of this step
  const int32_t* token = nullptr;      // [T] below 0 with `made`: -1 - i is made[i]
  const int32_t* position = nullptr;   // [T]
  const int32_t* seq = nullptr;        // [T]
  const int32_t* q_start = nullptr;    // [S + 1]
  const int32_t* kv_len = nullptr;     // [S]
  const int32_t* logit_row = nullptr;  // [L]
  // [L] the tokens that the step before made, -1 where it could not; null: all tokens are known to the host.
  const int32_t* made = nullptr;
  Group groups[kMaxGroups];
  int pages_per_seq = 0;
};

class Blas;  // matmul/cuda/cuda_blas.h

struct Ctx : DeviceCtx {
  DeviceBatch batch;
  Shape shape;                   // of the bucket: at least the step's rows of each kind
  int seqs = 0;                  // of the bucket
  int q_rows = 0;                // of the bucket: no seq has more rows than this
  Blas* blas = nullptr;          // null: own products alone
  const Peers* peers = nullptr;  // null: one device

  int64_t rows(const Tensor& t) const { return shape.rows(t.rows); }
};

// Given to prepare(), once, when the arena and the weights have their places on the device.
struct Prepare {
  StepLimits limits;
  StreamRef stream = nullptr;
  int multiprocessors = 1;
  int arch = 0;
  Blas* blas = nullptr;
  bool batch_invariant = false;
  bool f8_rows = false;          // rows that meet weights of e4m3 are rounded to e4m3, where there are kernels for it
  Comm* comm = nullptr;          // of this rank's thread, where several prepare the same nodes at the same time
  const Peers* peers = nullptr;  // then
  // Memory of the device that lives as long as the program; 256-byte aligned.
  std::function<std::byte*(int64_t bytes)> allocate;
  // Whether a second, packed copy of the weights fits beside the KV cache.
  bool room_for_packed = true;
  int64_t scratch_bytes = 0;  // the largest that any op asked for

  void need_scratch(int64_t bytes) { scratch_bytes = std::max(scratch_bytes, (bytes + 255) / 256 * 256); }
  // `bytes` of the host's memory, on the device from now on.
  template <class T>
  const T* upload(const T* from, int64_t n) {
    std::byte* to = allocate(n * static_cast<int64_t>(sizeof(T)));
    copy_to_device(to, from, n * static_cast<int64_t>(sizeof(T)), stream);
    return reinterpret_cast<const T*>(to);
  }
};

// Ops that choose nothing ahead of time.
template <class Op>
void prepare(Op&, Prepare&) {}
// Ops that read all their weights as they are published.
template <class Op>
bool leave_published(Op&) {
  return false;
}
// Ops that do nothing on the way from one to the other.
template <class First, class Second>
bool link(First&, Second&, Prepare&) {
  return false;
}

}  // namespace ingot::cuda
