#include "emulator/emulator.h"

namespace ingot::cuda {
namespace {

void settle(CopyBarrier* barrier) {
  if (barrier->missing != 0 || barrier->pieces != 0) return;
  barrier->parity ^= 1;
  barrier->missing = barrier->arrivals;
}

}  // namespace

void barrier_init(CopyBarrier* barrier, int arrivals) {
  *barrier = {.parity = 0,
              .arrivals = static_cast<uint16_t>(arrivals),
              .missing = static_cast<uint16_t>(arrivals),
              .pieces = 0};
}

void barrier_arrive(CopyBarrier* barrier) {
  CHECK(barrier->missing > 0, "more arrivals than the barrier has");
  --barrier->missing;
  settle(barrier);
}

void barrier_expect(CopyBarrier* barrier, uint32_t bytes) {
  barrier->pieces = static_cast<int16_t>(barrier->pieces + static_cast<int>(bytes / 16));
  barrier_arrive(barrier);
}

void barrier_wait(CopyBarrier* barrier, uint32_t parity) {
  while (barrier->parity == (parity & 1)) emulated::wait_a_while();
}

void copy_bulk(void* shared, const void* global, uint32_t bytes, CopyBarrier* barrier, bool) {
  CHECK(
      bytes % 16 == 0 && reinterpret_cast<uintptr_t>(shared) % 16 == 0 && reinterpret_cast<uintptr_t>(global) % 16 == 0,
      "a bulk copy of {} bytes that are not aligned", bytes);
  std::memcpy(shared, global, bytes);
  barrier->pieces = static_cast<int16_t>(barrier->pieces - static_cast<int>(bytes / 16));
  settle(barrier);
}

}  // namespace ingot::cuda
