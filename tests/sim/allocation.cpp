// Replaces operator new in this test program, so that a test can count allocations and make one fail.
#include <cstdlib>
#include <new>

#include "sim/simulation.h"

namespace {
thread_local int left = -1;
thread_local bool paused = false;
thread_local bool happened = false;
thread_local int64_t counted = 0;

bool fails() {
  if (paused) return false;
  ++counted;
  if (left < 0) return false;
  if (left-- > 0) return false;
  happened = true;
  return true;
}
}  // namespace

namespace ingot::sim {
void fail_allocation(int n) {
  left = n;
  paused = happened = false;
}
void pause_allocation_failure() { paused = true; }
void resume_allocation_failure() { paused = false; }
bool allocation_failed() { return happened; }
int64_t allocations() { return counted; }
}  // namespace ingot::sim

// Not inlined: the compiler would see malloc and delete, or new and free, as a mismatched pair.
[[gnu::noinline]] void* operator new(size_t size) {
  if (fails()) throw std::bad_alloc();
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
