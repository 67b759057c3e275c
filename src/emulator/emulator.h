// kernel.cuh without a GPU: a kernel is run block after block by the calling thread, each CUDA thread on a stack of its
// own. A thread runs until it must wait for others (a barrier, a shuffle, a matrix instruction), so every order that it
// does not wait for is one that the device may take too. Races between threads are not found; what is: wrong indices,
// lane maps, barriers that not all reach, phases, tails, reads of shared memory that nobody wrote (it begins as NaN).
#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "tensor/cuda_emulated.h"
#include "tensor/dtype.h"

#define __global__
#define __host__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __constant__ static
#define __shared__ static  // one block at a time

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  template <class X>
  dim3(X x_) : x(static_cast<unsigned>(x_)) {}  // NOLINT: as CUDA's
  template <class X, class Y>
  dim3(X x_, Y y_) : x(static_cast<unsigned>(x_)), y(static_cast<unsigned>(y_)) {}
  template <class X, class Y, class Z>
  dim3(X x_, Y y_, Z z_) : x(static_cast<unsigned>(x_)), y(static_cast<unsigned>(y_)), z(static_cast<unsigned>(z_)) {}
};

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace ingot::cuda {

namespace emulated {

// The running thread's place.
extern dim3 g_thread, g_block, g_threads, g_grid;

// Waits for all threads of the warp that have not ended; gives what each of the 32 left there. Valid until the next.
inline constexpr size_t kSlot = 64;
using Slots = std::byte[32][kSlot];
const Slots& meet_warp(const void* mine, size_t bytes);
int lane();
unsigned live_lanes();  // of the warp, as bits
// Waits for all threads of the block, or for `count` of them at barrier `id`.
void meet_block();
void meet_some(int id, int count);
// Counts towards the meeting at barrier `id` and goes on.
void arrive_some(int id, int count);
// Lets others run: for loops that wait for memory to change. Aborts where nobody can change it any more.
void wait_a_while();

std::byte* dynamic_shared();
size_t dynamic_shared_bytes();
// Room for what others keep of the running block; nothing when it begins.
std::shared_ptr<void>& block_state();
// For tests of kernels that begin before the previous one has ended: these bytes are what they were before until all
// threads of a block of the next grid wait for its inputs; then they are those at `from`. For one grid, and for good
// after it.
void write_late(void* to, const void* from, size_t bytes);
// Runs all blocks of a grid, one after another or together.
void run_grid(const dim3& grid, const dim3& threads, int64_t shared, bool together, const std::function<void()>& body);

template <class T>
std::pair<const Slots&, int> meet(const T& mine) {
  static_assert(sizeof(T) <= kSlot);
  const Slots& all = meet_warp(&mine, sizeof(T));
  return {all, lane()};
}
template <class T>
T from(const Slots& all, int other) {
  T value;
  std::memcpy(&value, all[other], sizeof(T));
  return value;
}

}  // namespace emulated

#define threadIdx (::ingot::cuda::emulated::g_thread)
#define blockIdx (::ingot::cuda::emulated::g_block)
#define blockDim (::ingot::cuda::emulated::g_threads)
#define gridDim (::ingot::cuda::emulated::g_grid)

// --- Launching ---

struct Launch {
  dim3 grid;
  dim3 threads;
  int64_t shared = 0;
  // Blocks wait for each other. Such a kernel has dynamic shared memory only: that of __shared__ is one for all here.
  bool together = false;
};

namespace emulated {

template <class... P, class... A>
void launch(StreamRef stream, void (*kernel)(P...), const Launch& shape, A&&... args) {
  const uint64_t threads = uint64_t{shape.threads.x} * shape.threads.y * shape.threads.z;
  CHECK(shape.shared <= 227 << 10, "{} bytes of shared memory", shape.shared);
  CHECK(threads > 0 && threads <= 1024 && shape.grid.x > 0 && shape.grid.y > 0 && shape.grid.y < 65536 &&
            shape.grid.z > 0 && shape.grid.z < 65536,
        "{} threads in a grid of {} x {} x {}", threads, shape.grid.x, shape.grid.y, shape.grid.z);
  emulated_work(stream, [kernel, shape, given = std::tuple<P...>(static_cast<P>(args)...)] {
    run_grid(shape.grid, shape.threads, shape.shared, shape.together, [&] {
      std::tuple<P...> own = given;  // every thread has parameters of its own
      std::apply([&](auto&... a) { kernel(a...); }, own);
    });
  });
}

}  // namespace emulated

template <class T>
T* shared_memory() {
  return reinterpret_cast<T*>(emulated::dynamic_shared());
}
inline void let_next_begin() {}
void wait_for_inputs();

// --- Numbers ---

inline float bf16_value(uint16_t bits) { return bf16_to_f32(bits); }
inline uint16_t bf16_bits(float x) { return f32_to_bf16(x); }
inline float f16_value(uint16_t bits) { return f16_to_f32(bits); }
inline uint16_t f16_bits(float x) { return f32_to_f16(x); }
inline uint32_t pack_bf16(float low, float high) { return f32_to_bf16(low) | uint32_t{f32_to_bf16(high)} << 16; }
inline uint32_t pack_f16(float low, float high) { return f32_to_f16(low) | uint32_t{f32_to_f16(high)} << 16; }
inline float fast_exp2(float x) { return std::exp2(x); }
inline float fast_reciprocal(float x) { return 1.0f / x; }
inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(uint32_t x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int64_t __double_as_longlong(double x) { return std::bit_cast<int64_t>(x); }
inline double __longlong_as_double(int64_t x) { return std::bit_cast<double>(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline int __popc(uint32_t x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<uint32_t>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<uint32_t>(x)) + 1; }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }
using std::isinf;
using std::isnan;
#define INGOT_MIN_MAX(T)                           \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
INGOT_MIN_MAX(int)
INGOT_MIN_MAX(unsigned)
INGOT_MIN_MAX(int64_t)
INGOT_MIN_MAX(uint64_t)
#undef INGOT_MIN_MAX

// --- Threads ---

inline void __syncthreads() { emulated::meet_block(); }
inline void __syncwarp(unsigned = 0xffffffffu) { emulated::meet_warp(nullptr, 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __shfl_sync(unsigned, T x, int source, int width = 32) {
  const auto [all, lane] = emulated::meet(x);
  return emulated::from<T>(all, lane / width * width + (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int mask, int width = 32) {
  const auto [all, lane] = emulated::meet(x);
  const int other = lane ^ mask;
  return emulated::from<T>(all, other / width == lane / width ? other : lane);
}
template <class T>
T __shfl_down_sync(unsigned, T x, int delta, int width = 32) {
  const auto [all, lane] = emulated::meet(x);
  return emulated::from<T>(all, lane % width + delta < width ? lane + delta : lane);
}
template <class T>
T __shfl_up_sync(unsigned, T x, int delta, int width = 32) {
  const auto [all, lane] = emulated::meet(x);
  return emulated::from<T>(all, lane % width >= delta ? lane - delta : lane);
}
unsigned __ballot_sync(unsigned mask, int predicate);
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
int __syncthreads_count(int predicate);
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
inline int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }
template <class T>
T __reduce_add_sync(unsigned, T x) {
  const auto [all, lane] = emulated::meet(x);
  T sum = 0;
  for (int i = 0; i < 32; ++i)
    if (emulated::live_lanes() >> i & 1) sum += emulated::from<T>(all, i);
  return sum;
}

namespace emulated {
// Of the lanes that have not ended.
template <class T, class F>
T reduce_lanes(T x, F&& better) {
  const auto [all, lane] = meet(x);
  for (int i = 0; i < 32; ++i) {
    const T other = from<T>(all, i);
    if ((live_lanes() >> i & 1) != 0 && better(other, x)) x = other;
  }
  return x;
}
}  // namespace emulated
inline uint32_t __reduce_max_sync(unsigned, uint32_t x) {
  return emulated::reduce_lanes(x, [](uint32_t a, uint32_t b) { return a > b; });
}
inline uint32_t __reduce_min_sync(unsigned, uint32_t x) {
  return emulated::reduce_lanes(x, [](uint32_t a, uint32_t b) { return a < b; });
}

template <class T>
T atomicAdd(T* p, std::type_identity_t<T> x) {
  return std::exchange(*p, static_cast<T>(*p + x));
}
template <class T>
T atomicSub(T* p, std::type_identity_t<T> x) {
  return std::exchange(*p, static_cast<T>(*p - x));
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> x) {
  return std::exchange(*p, x > *p ? x : *p);
}
template <class T>
T atomicMin(T* p, std::type_identity_t<T> x) {
  return std::exchange(*p, x < *p ? x : *p);
}
template <class T>
T atomicOr(T* p, std::type_identity_t<T> x) {
  return std::exchange(*p, *p | x);
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> x) {
  return std::exchange(*p, x);
}
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> x) {
  return std::exchange(*p, *p == expected ? x : *p);
}
// Wraps around to 0 after `last`.
inline unsigned atomicInc(unsigned* p, unsigned last) { return std::exchange(*p, *p >= last ? 0u : *p + 1); }

// --- Memory ---

inline uint4 load_stream(const void* p) {
  uint4 v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
inline float load_fresh(const float* p) { return *p; }
inline float4 load_fresh4(const float* p) { return *reinterpret_cast<const float4*>(p); }
namespace emulated {
inline constexpr uint32_t kNotHanded = 0xffffffffu;  // what hand_over() and take_over() take for nothing: kNothing
}
inline void hand_over(float* to, const float4& values) {
  const float all[4] = {values.x, values.y, values.z, values.w};
  for (int i = 0; i < 4; ++i) to[i] = __float_as_uint(all[i]) == emulated::kNotHanded ? NAN : all[i];
}
float4 take_over_one(float* from);
template <int N>
void take_over(float* const (&from)[N], float4 (&values)[N]) {
  for (int i = 0; i < N; ++i) values[i] = take_over_one(from[i]);
}
inline void copy_async(void* shared, const void* global, bool valid = true) {
  if (valid) {
    std::memcpy(shared, global, 16);
  } else {
    std::memset(shared, 0, 16);
  }
}
inline void copy_async_word(void* shared, const void* global, bool valid = true) {
  if (valid) {
    std::memcpy(shared, global, 4);
  } else {
    std::memset(shared, 0, 4);
  }
}
inline void commit_copies() {}
template <int N>
void copies_done() {}

// The phase's parity, arrivals of a phase, those that are still missing, bytes that are still missing.
struct alignas(8) CopyBarrier {
  uint16_t parity, arrivals;
  uint16_t missing;
  int16_t pieces;  // bytes / 16
};
void barrier_init(CopyBarrier* barrier, int arrivals);
inline void barrier_inits_done() {}
void barrier_expect(CopyBarrier* barrier, uint32_t bytes);
void barrier_arrive(CopyBarrier* barrier);
void barrier_wait(CopyBarrier* barrier, uint32_t parity);
void copy_bulk(void* shared, const void* global, uint32_t bytes, CopyBarrier* barrier, bool once = true);

// --- Matrix instructions ---

void load_matrices(uint32_t (&r)[4], const void* row);
void load_matrices_transposed(uint32_t (&r)[4], const void* row);
void multiply_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
void multiply_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

}  // namespace ingot::cuda
