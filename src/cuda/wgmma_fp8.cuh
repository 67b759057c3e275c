// Products of 8-bit floats (e4m3) by warpgroups: multiply_group() of wgmma.cuh with d[64, N] += a[64, 32] · b[32, N], N
// one of 32, 64 and 128, all else as there. Both matrices lie by rows in shared memory, whose 128 bytes are 128 values
// of K; the next 32 of K are 32 bytes further. The device keeps about 14 bits of a sum (squared errors of 2e-9 after 32
// values of K, 1.8e-6 after 4096): so every 128 of K or so sums are taken and added up in float32.
#pragma once

#include "cuda/wgmma.cuh"

#ifdef INGOT_CUDA_EMULATED
#include "emulator/emulator_wgmma_fp8.h"
#endif

namespace ingot::cuda {

#ifdef INGOT_CUDA_EMULATED

template <int kFloats>
void multiply_group_fp8(float (&d)[kFloats], MatrixPlace a, MatrixPlace b, bool add = true) {
  emulated::multiply_group_fp8({d, 2 * kFloats, nullptr, a, b, false, false, add});
}

#else

template <int kFloats>
__device__ __forceinline__ void multiply_group_fp8(float (&d)[kFloats], MatrixPlace a, MatrixPlace b, bool add = true) {
#if INGOT_HAS_WGMMA
  static_assert(kFloats == 16 || kFloats == 32 || kFloats == 64);
#define INGOT_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define INGOT_D16(i) INGOT_D4(i), INGOT_D4(i + 4), INGOT_D4(i + 8), INGOT_D4(i + 12)
#define INGOT_E4M3(n, registers, a, b, add) \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " add   \
  ", 0;\n"                                  \
  "wgmma.mma_async.sync.aligned.m64" n "k32.f32.e4m3.e4m3 {" registers "}, " a ", " b ", p, 1, 1;\n}"
#define INGOT_S16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define INGOT_S32 INGOT_S16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define INGOT_S64                                                                                     \
  INGOT_S32                                                                                           \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55," \
  "%56,%57,%58,%59,%60,%61,%62,%63"
  if constexpr (kFloats == 16) {
    asm volatile(INGOT_E4M3("n32", INGOT_S16, "%16", "%17", "%18")
                 : INGOT_D16(0)
                 : "l"(a), "l"(b), "r"(static_cast<int>(add))
                 : "memory");
  } else if constexpr (kFloats == 32) {
    asm volatile(INGOT_E4M3("n64", INGOT_S32, "%32", "%33", "%34")
                 : INGOT_D16(0), INGOT_D16(16)
                 : "l"(a), "l"(b), "r"(static_cast<int>(add))
                 : "memory");
  } else {
    asm volatile(INGOT_E4M3("n128", INGOT_S64, "%64", "%65", "%66")
                 : INGOT_D16(0), INGOT_D16(16), INGOT_D16(32), INGOT_D16(48)
                 : "l"(a), "l"(b), "r"(static_cast<int>(add))
                 : "memory");
  }
#undef INGOT_S64
#undef INGOT_S32
#undef INGOT_S16
#undef INGOT_E4M3
#undef INGOT_D16
#undef INGOT_D4
#endif
}

#endif

}  // namespace ingot::cuda
