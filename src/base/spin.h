// Waiting for another thread without sleeping, for as long as waking would cost.
#pragma once

#include <chrono>
#include <cstdint>

namespace ingot {

inline void pause_cpu() {
#if defined(__aarch64__)
  asm volatile("yield");
#elif defined(__x86_64__)
  asm volatile("pause");
#endif
}

// Spins until done() or for `ns`; says whether done(). 0: looks once.
template <class F>
bool spin(int64_t ns, const F& done) {
  // The clock costs as much as some pauses, which last 4 to 140 cycles on x86-64 and one on AArch64.
#if defined(__aarch64__)
  constexpr int kPauses = 256;
#else
  constexpr int kPauses = 16;
#endif
  if (done()) return true;
  if (ns == 0) return false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
  do {
    for (int i = 0; i < kPauses; ++i) {
      pause_cpu();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace ingot
