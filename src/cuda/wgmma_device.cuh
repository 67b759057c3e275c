// wgmma.cuh's instructions, one overload for each N. Elsewhere than on compute capability 9.0 they are empty.
#pragma once

#include "cuda/device.cuh"

namespace ingot::cuda::detail {

// The compiler knows nothing of products that are in flight: d changes here.
template <int kFloats>
__device__ inline void touch(float (&d)[kFloats]) {
#pragma unroll
  for (int i = 0; i < kFloats; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

#define INGOT_R4 "%0,%1,%2,%3"
#define INGOT_R8 INGOT_R4 ",%4,%5,%6,%7"
#define INGOT_R12 INGOT_R8 ",%8,%9,%10,%11"
#define INGOT_R16 INGOT_R12 ",%12,%13,%14,%15"
#define INGOT_R24 INGOT_R16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define INGOT_R32 INGOT_R24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define INGOT_R48 INGOT_R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define INGOT_R64 INGOT_R48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define INGOT_R96                                                                                                     \
  INGOT_R64                                                                                                           \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91," \
  "%92,%93,%94,%95"
#define INGOT_R128                                                                                                   \
  INGOT_R96                                                                                                          \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118," \
  "%119,%120,%121,%122,%123,%124,%125,%126,%127"

#define INGOT_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define INGOT_F8(i) INGOT_F4(i), INGOT_F4(i + 4)
#define INGOT_F12(i) INGOT_F8(i), INGOT_F4(i + 8)
#define INGOT_F16(i) INGOT_F8(i), INGOT_F8(i + 8)
#define INGOT_F24(i) INGOT_F16(i), INGOT_F8(i + 16)
#define INGOT_F32(i) INGOT_F16(i), INGOT_F16(i + 16)
#define INGOT_F48(i) INGOT_F32(i), INGOT_F16(i + 32)
#define INGOT_F64(i) INGOT_F32(i), INGOT_F32(i + 32)
#define INGOT_F128(i) INGOT_F64(i), INGOT_F64(i + 64)

#define INGOT_ADD_IF(p) "{\n.reg .pred add;\nsetp.ne.b32 add, %" #p ", 0;\n"
#define INGOT_WGMMA(n, type, f) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" INGOT_R##f "}, "

// f = n / 2 floats are operands 0 … f - 1; p0 … p6 are the numbers of those after them.
#define INGOT_FROM_REGISTERS(n, f, type, p0, p1, p2, p3, p4, p5, p6)                                             \
  asm volatile(INGOT_ADD_IF(p5) INGOT_WGMMA(n, type, f) "{%" #p0 ",%" #p1 ",%" #p2 ",%" #p3 "}, %" #p4           \
                                                        ", add, 1, 1, %" #p6 ";\n}"                              \
               : INGOT_F##f(0)                                                                                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), "n"(kByColumns) \
               : "memory")
#define INGOT_FROM_SHARED(n, f, type, p0, p1, p2, p3)                                                    \
  asm volatile(INGOT_ADD_IF(p2) INGOT_WGMMA(n, type, f) "%" #p0 ", %" #p1 ", add, 1, 1, 0, %" #p3 ";\n}" \
               : INGOT_F##f(0)                                                                           \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kByColumns)                             \
               : "memory")

#define INGOT_PRODUCT(n, f, p0, p1, p2, p3, p4, p5, p6)                                       \
  template <bool kBf16, int kByColumns>                                                       \
  __device__ inline void product(float(&d)[f], const uint32_t(&a)[4], uint64_t b, bool add) { \
    if constexpr (kBf16) {                                                                    \
      INGOT_FROM_REGISTERS(n, f, "bf16", p0, p1, p2, p3, p4, p5, p6);                         \
    } else {                                                                                  \
      INGOT_FROM_REGISTERS(n, f, "f16", p0, p1, p2, p3, p4, p5, p6);                          \
    }                                                                                         \
  }                                                                                           \
  template <bool kBf16, int kByColumns>                                                       \
  __device__ inline void product(float(&d)[f], uint64_t a, uint64_t b, bool add) {            \
    if constexpr (kBf16) {                                                                    \
      INGOT_FROM_SHARED(n, f, "bf16", p0, p1, p2, p3);                                        \
    } else {                                                                                  \
      INGOT_FROM_SHARED(n, f, "f16", p0, p1, p2, p3);                                         \
    }                                                                                         \
  }

INGOT_PRODUCT(8, 4, 4, 5, 6, 7, 8, 9, 10)
INGOT_PRODUCT(16, 8, 8, 9, 10, 11, 12, 13, 14)
INGOT_PRODUCT(24, 12, 12, 13, 14, 15, 16, 17, 18)
INGOT_PRODUCT(32, 16, 16, 17, 18, 19, 20, 21, 22)
INGOT_PRODUCT(48, 24, 24, 25, 26, 27, 28, 29, 30)
INGOT_PRODUCT(64, 32, 32, 33, 34, 35, 36, 37, 38)
INGOT_PRODUCT(96, 48, 48, 49, 50, 51, 52, 53, 54)
INGOT_PRODUCT(128, 64, 64, 65, 66, 67, 68, 69, 70)
INGOT_PRODUCT(256, 128, 128, 129, 130, 131, 132, 133, 134)

#undef INGOT_PRODUCT
#undef INGOT_FROM_SHARED
#undef INGOT_FROM_REGISTERS
#undef INGOT_WGMMA
#undef INGOT_ADD_IF
#undef INGOT_F4
#undef INGOT_F8
#undef INGOT_F12
#undef INGOT_F16
#undef INGOT_F24
#undef INGOT_F32
#undef INGOT_F48
#undef INGOT_F64
#undef INGOT_F128
#undef INGOT_R4
#undef INGOT_R8
#undef INGOT_R12
#undef INGOT_R16
#undef INGOT_R24
#undef INGOT_R32
#undef INGOT_R48
#undef INGOT_R64
#undef INGOT_R96
#undef INGOT_R128

#else

template <bool kBf16, int kByColumns, int kFloats>
__device__ inline void product(float (&)[kFloats], const uint32_t (&)[4], uint64_t, bool) {}
template <bool kBf16, int kByColumns, int kFloats>
__device__ inline void product(float (&)[kFloats], uint64_t, uint64_t, bool) {}

#endif

}  // namespace ingot::cuda::detail
