// Four floats or two doubles at a time, in the baseline of every machine: what the algorithms of this folder are
// written with where a loop must not be left to the compiler. With fma where the baseline has it.
#pragma once

#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace ingot {

typedef float Float4 __attribute__((vector_size(16)));
typedef double Double2 __attribute__((vector_size(16)));

template <class V, class T>
inline V load_lanes(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
template <class V, class T>
inline void store_lanes(T* p, V v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

#if defined(__ARM_NEON)
inline Float4 fma_lanes(Float4 a, float b, Float4 c) { return (Float4)vfmaq_n_f32((float32x4_t)c, (float32x4_t)a, b); }
inline Double2 fma_lanes(Double2 a, double b, Double2 c) {
  return (Double2)vfmaq_n_f64((float64x2_t)c, (float64x2_t)a, b);
}
#else
inline Float4 fma_lanes(Float4 a, float b, Float4 c) { return a * b + c; }
inline Double2 fma_lanes(Double2 a, double b, Double2 c) { return a * b + c; }
#endif

}  // namespace ingot
