// What launching a kernel needs beside its arguments: where it goes, what the device is, and memory that kernels of one
// stream share. Ops' Ctx is one of these with the step's batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda.h"

namespace ingot::cuda {

struct DeviceCtx {
  StreamRef stream = nullptr;
  int multiprocessors = 1;
  int arch = 0;                  // 90 for compute capability 9.0
  std::byte* scratch = nullptr;  // for one op at a time, 256-byte aligned
  int64_t scratch_bytes = 0;
  // Zeros for counters of blocks that have arrived; every kernel leaves zeros behind. kTickets of them.
  uint32_t* tickets = nullptr;
  // What blocks of a grid hand to each other (hand_over() in kernel.cuh): kHandedRoom bytes for each multiprocessor,
  // kNothing in every word; every kernel leaves it so.
  float* handed = nullptr;
  bool overlap = true;  // a kernel may begin while the one before it ends (programmatic dependent launch)
  bool batch_invariant = false;
};

inline constexpr int kTickets = 1 << 16;
inline constexpr int64_t kHandedBytes = 32 << 10;         // what most kernels take
inline constexpr int64_t kHandedRoom = 2 * kHandedBytes;  // what there is: sums of 128 x 128 outputs
inline constexpr uint32_t kNothing = 0xffffffffu;         // bits of a NaN that no arithmetic makes

// Throws Error where the device in use runs none of the kernels that this program was built with.
void require_kernels();

}  // namespace ingot::cuda
