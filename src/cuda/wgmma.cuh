// Products of matrices by warpgroups, compute capability 9.0 alone: a warpgroup is 128 threads of a block one after
// another, the first a multiple of 128, and all of them make the same calls. d[64, N] += a[64, 16] · b[16, N] with f32
// sums; N is twice the length of d, one of 8, 16, 24, 32, 48, 64, 96, 128 and 256. With lane = 4g + t in warp w
// of the group:
//   d[4n], d[4n + 1]: row 16w + g, columns 8n + 2t, 8n + 2t + 1; d[4n + 2], d[4n + 3]: row 16w + g + 8
//   a[0], a[1]: rows 16w + g and 16w + g + 8, columns 2t, 2t + 1; a[2], a[3]: columns 2t + 8, 2t + 9
// Products run behind the threads' backs:
//   shared_writes_done()   by the threads that wrote (or copied, after copies_done) into shared memory, before the
//                          barrier behind which products read it
//   products_begin()       before the first product, and before the first after registers of one were touched
//   multiply_group(...)    any number; d may be that of a product before it that is in flight
//   products_commit()      those since the last one are a group
//   products_done<n>(d)    all groups but the newest n are done: from here on d may be read, and a's registers and the
//                          shared memory written. Name every d that is read next, or the compiler reads it too early.
// The emulation delivers sums when they are waited for (until then they are no numbers), and aborts where shared memory
// changes under a product, where products_begin() is missing and where the four warps ask for different products.
// Only in files whose kernels do without bodies elsewhere: INGOT_HAS_WGMMA says whether the body is compiled.
#pragma once

#include "cuda/kernel.cuh"

#if defined(INGOT_CUDA_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define INGOT_HAS_WGMMA 1
#else
#define INGOT_HAS_WGMMA 0
#endif

#ifdef INGOT_CUDA_EMULATED
#include "emulator/emulator_wgmma.h"
#else
#include "cuda/wgmma_device.cuh"
#endif

namespace ingot::cuda {

// A matrix of 16-bit values in shared memory as the instruction wants it described: rows of 128 bytes (64 values) one
// after another, of which eight at a time are permuted as kv_piece() says, by the address. Every eight begin at a
// multiple of 1024 bytes.
//   by rows      a row of memory is one of M (or of N), its 64 values are of K. The next 16 of K: 32 bytes further
//   by columns   a row of memory is one of K, its 64 values are of N; 64 more of N are `panel_bytes` further. The next
//                16 of K: 2048 bytes further
using MatrixPlace = uint64_t;

namespace detail {
// Bits 0-13 address, 16-29 leading and 32-45 stride offsets, all in units of 16 bytes; 62-63: 1 is 128-byte swizzle.
__device__ inline MatrixPlace matrix_place(uint32_t address, uint32_t leading) {
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
         uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
}  // namespace detail

#ifdef INGOT_CUDA_EMULATED

inline MatrixPlace matrix_by_rows(const void* p) { return detail::matrix_place(emulated::shared_offset(p), 16); }
inline MatrixPlace matrix_by_columns(const void* p, int panel_bytes) {
  return detail::matrix_place(emulated::shared_offset(p), static_cast<uint32_t>(panel_bytes));
}
template <bool kBf16, bool kByColumns, int kFloats>
void multiply_group(float (&d)[kFloats], const uint32_t (&a)[4], MatrixPlace b, bool add = true) {
  emulated::multiply_group({d, 2 * kFloats, a, 0, b, kBf16, kByColumns, add});
}
template <bool kBf16, bool kByColumns, int kFloats>
void multiply_group(float (&d)[kFloats], MatrixPlace a, MatrixPlace b, bool add = true) {
  emulated::multiply_group({d, 2 * kFloats, nullptr, a, b, kBf16, kByColumns, add});
}
inline void products_begin() { emulated::products_begin(); }
inline void products_commit() { emulated::products_commit(); }
template <int kBut, class... D>
void products_done(D&...) {
  emulated::products_done(kBut);
}
inline void shared_writes_done() {}
template <int kRegisters>
void give_registers() {}
template <int kRegisters>
void take_registers() {}
inline void barrier_some(int id, int threads) { emulated::meet_some(id, threads); }
inline void barrier_some_arrive(int id, int threads) { emulated::arrive_some(id, threads); }
inline void barrier_arrive_after_copies(CopyBarrier* barrier) { barrier_arrive(barrier); }

#else

__device__ inline MatrixPlace matrix_by_rows(const void* p) { return detail::matrix_place(shared_address(p), 16); }
__device__ inline MatrixPlace matrix_by_columns(const void* p, int panel_bytes) {
  return detail::matrix_place(shared_address(p), static_cast<uint32_t>(panel_bytes));
}
// b by columns or by rows; `a` in registers or by rows in shared memory. Without `add` d is written over.
template <bool kBf16, bool kByColumns, int kFloats>
__device__ inline void multiply_group(float (&d)[kFloats], const uint32_t (&a)[4], MatrixPlace b, bool add = true) {
  detail::product<kBf16, kByColumns>(d, a, b, add);
}
template <bool kBf16, bool kByColumns, int kFloats>
__device__ inline void multiply_group(float (&d)[kFloats], MatrixPlace a, MatrixPlace b, bool add = true) {
  detail::product<kBf16, kByColumns>(d, a, b, add);
}

#if INGOT_HAS_WGMMA
__device__ inline void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kBut, class... D>
__device__ inline void products_done(D&... d) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kBut) : "memory");
  (detail::touch(d), ...);
}
__device__ inline void shared_writes_done() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Registers of each thread of the warpgroup from here on, a multiple of 8 between 24 and 256.
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
#else
__device__ inline void products_begin() {}
__device__ inline void products_commit() {}
template <int kBut, class... D>
__device__ inline void products_done(D&...) {}
__device__ inline void shared_writes_done() {}
template <int kRegisters>
__device__ inline void give_registers() {}
template <int kRegisters>
__device__ inline void take_registers() {}
#endif

// Barrier `id` (1 … 15) of so many of the block's threads, whole warps: until all are there; or without waiting.
__device__ inline void barrier_some(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void barrier_some_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// One arrival, when all copies that this thread has begun are there.
__device__ inline void barrier_arrive_after_copies(CopyBarrier* barrier) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

#endif

// The same matrix `bytes` further on.
__device__ inline MatrixPlace further(MatrixPlace place, int bytes) {
  return place + static_cast<uint64_t>(bytes >> 4);
}

}  // namespace ingot::cuda
