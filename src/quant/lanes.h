// Four floats at a time, in the baseline of every machine: what the algorithms of this folder are written with where a
// loop must not be left to the compiler.
#pragma once

namespace ingot {

typedef float Float4 __attribute__((vector_size(16)));

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

}  // namespace ingot
