// kernel.cuh on a real device: PTX behind plain names. emulator.h gives the same names on the host.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "base/check.h"
#include "cuda/device_ctx.h"

namespace ingot::cuda {

// --- Launching ---

struct Launch {
  dim3 grid;
  dim3 threads;
  int64_t shared = 0;  // dynamic bytes
  // Blocks wait for each other: the grid is no larger than what the device runs at a time, one for a multiprocessor.
  // Kernels of other streams hold it up and no more, as long as their blocks do not wait so: a process has one engine,
  // which gives all its steps to one stream, and the next kernel of a stream begins when all blocks of this one have.
  bool together = false;
};

void check_launch(cudaError_t error, const char* what);  // aborts with CUDA's words

// More than 48 KiB of shared memory must be asked for, once for each kernel; launch() does.
void allow_shared(const void* kernel, int64_t bytes);

// Gives the kernel to ctx.stream. Where ctx.overlap is set it may begin before the previous kernel has ended: every
// kernel calls wait_for_inputs() before it reads or writes what another kernel writes or reads.
template <class... P, class... A>
void launch(const DeviceCtx& ctx, void (*kernel)(P...), const Launch& shape, A&&... args) {
  if (shape.shared > 48 << 10) allow_shared(reinterpret_cast<const void*>(kernel), shape.shared);
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared);
  config.stream = ctx.stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = ctx.overlap && ctx.arch >= 90 ? 1 : 0;
  check_launch(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...), "a kernel");
}

template <class T>
__device__ T* shared_memory() {
  extern __shared__ __align__(1024) unsigned char ingot_shared[];
  return reinterpret_cast<T*>(ingot_shared);
}

// Programmatic dependent launch: lets the next kernel begin; waits until the ones before it have ended.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// --- Numbers ---

__device__ inline float bf16_value(uint16_t bits) { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }
__device__ inline uint16_t bf16_bits(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
__device__ inline float f16_value(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ inline uint16_t f16_bits(float x) { return __half_as_ushort(__float2half_rn(x)); }
// Two values in one register, `low` in the lower half.
__device__ inline uint32_t pack_bf16(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
__device__ inline uint32_t pack_f16(float low, float high) {
  uint32_t out;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
// 2^x by the special function unit, relative error below 2^-22.
__device__ inline float fast_exp2(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

// 1 / x by the same unit, to 1 of the last place.
__device__ inline float fast_reciprocal(float x) {
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

// --- Global memory ---

// 16 bytes that are read once: past the L1 cache.
__device__ inline uint4 load_stream(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// What another block of this kernel may have written: past the L1 cache.
__device__ inline float load_fresh(const float* p) {
  float x;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(p) : "memory");
  return x;
}
__device__ inline float4 load_fresh4(const float* p) {
  float4 x;
  asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "l"(p)
               : "memory");
  return x;
}

// What the blocks of a grid hand to each other, value by value: no fence, no counter, one way through the second-level
// cache. The memory holds kNothing wherever nothing is handed over, before the kernel and after it.
__device__ inline void hand_over(float* to, const float4& values) {
  const auto bits = [](float x) { return __float_as_uint(x) == kNothing ? 0x7fffffffu : __float_as_uint(x); };
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(bits(values.x)), "r"(bits(values.y)),
               "r"(bits(values.z)), "r"(bits(values.w))
               : "memory");
}
// Waits until all are there.
template <int N>
__device__ void take_over(float* const (&from)[N], float4 (&values)[N]) {
  bool missing = true;
  while (missing) {
    missing = false;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      uint4 v;
      asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(from[i])
                   : "memory");
      missing = missing || v.x == kNothing || v.y == kNothing || v.z == kNothing || v.w == kNothing;
      values[i] = make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) *reinterpret_cast<uint4*>(from[i]) = make_uint4(kNothing, kNothing, kNothing, kNothing);
}

// --- Copies into shared memory ---

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// 16 bytes; zeros where not `valid`. Done after copies_done<n>() and a barrier.
__device__ inline void copy_async(void* shared, const void* global, bool valid = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}
// 4 bytes.
__device__ inline void copy_async_word(void* shared, const void* global, bool valid = true) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 4 : 0)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All but the newest N groups of this thread have arrived.
template <int N>
__device__ inline void copies_done() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// A barrier in shared memory that copies complete (Hopper; an mbarrier).
struct alignas(8) CopyBarrier {
  uint64_t state;
};
__device__ inline void barrier_init(CopyBarrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// After the inits, by the thread that made them, before a __syncthreads() or __syncwarp().
__device__ inline void barrier_inits_done() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// One arrival, and `bytes` more to be copied in this phase.
__device__ inline void barrier_expect(CopyBarrier* barrier, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}
__device__ inline void barrier_arrive(CopyBarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Until the phase of this parity is complete; the first has parity 0.
__device__ inline void barrier_wait(CopyBarrier* barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}
// `bytes` (a multiple of 16, both ends 16-byte aligned) by TMA; completes the barrier. `once`: they are
// read once, so they make room in the cache first.
__device__ inline void copy_bulk(void* shared, const void* global, uint32_t bytes, CopyBarrier* barrier,
                                 bool once = true) {
#if __CUDA_ARCH__ >= 900
  // The encoded cache policies of createpolicy.fractional with fraction 1: evict_first and evict_normal.
  const uint64_t policy = once ? 0x12F0000000000000ull : 0x1000000000000000ull;
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
#endif
}

// --- Matrix instructions, by whole warps ---

// Four 8×8 matrices of 16-bit values; lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void load_matrices(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// d += a · b, a 16×16 by rows, b 16×8 by columns, f32 sums. With g = lane / 4 and t = lane % 4:
// a[0], a[1]: rows g, g + 8, columns 2t, 2t + 1; a[2], a[3]: columns 2t + 8, 2t + 9; b[0], b[1]: rows 2t, 2t + 1 and
// 2t + 8, 2t + 9 of column g; d[0], d[1]: row g, columns 2t, 2t + 1; d[2], d[3]: row g + 8.
__device__ inline void multiply_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void multiply_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace ingot::cuda
