// Products of 8-bit floats (e4m3) by warpgroups: multiply_group() of wgmma.cuh with d[64, 128] += a[64, 32] · b[32,
// 128], all else as there. Both matrices lie by rows in shared memory, whose 128 bytes are 128 values of K; the next 32
// of K are 32 bytes further. The device keeps about 14 bits of a sum (squared errors of 2e-9 after 32 values of
// K, 1.8e-6 after 4096): so every 128 of K or so sums are taken and added up in float32.
#pragma once

#include "cuda/wgmma.cuh"

#ifdef INGOT_CUDA_EMULATED
#include "emulator/emulator_wgmma_fp8.h"
#endif

namespace ingot::cuda {

#ifdef INGOT_CUDA_EMULATED

inline void multiply_group_fp8(float (&d)[64], MatrixPlace a, MatrixPlace b, bool add = true) {
  emulated::multiply_group_fp8({d, 128, nullptr, a, b, false, false, add});
}

#else

__device__ inline void multiply_group_fp8(float (&d)[64], MatrixPlace a, MatrixPlace b, bool add = true) {
#if INGOT_HAS_WGMMA
#define INGOT_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define INGOT_F16(i) INGOT_F4(i), INGOT_F4(i + 4), INGOT_F4(i + 8), INGOT_F4(i + 12)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, add, 1, 1;\n}"
      : INGOT_F16(0), INGOT_F16(16), INGOT_F16(32), INGOT_F16(48)
      : "l"(a), "l"(b), "r"(static_cast<int>(add))
      : "memory");
#undef INGOT_F16
#undef INGOT_F4
#endif
}

#endif

}  // namespace ingot::cuda
