// A row that a block keeps in its registers, so that it is read once: what row-wise kernels share.
#pragma once

#include "cuda/elements.cuh"

namespace ingot::cuda {

// Thread t of kThreads has the fours t, t + kThreads, …: a row of up to 4 · kFours · kThreads columns.
template <int kFours, int kThreads>
struct RegisterRow {
  Four v[kFours];

  // Values beyond the row are 0.
  __device__ void load(const std::byte* row, int cols, DType dtype, bool wide) {
#pragma unroll
    for (int j = 0; j < kFours; ++j) v[j] = get_four(row, four(j), cols, dtype, wide);
  }
  __device__ void store(std::byte* row, int cols, DType dtype, bool wide) const {
#pragma unroll
    for (int j = 0; j < kFours; ++j) put_four(row, four(j), cols, dtype, wide, v[j]);
  }
  // f(value, column) for every value of the row that this thread has.
  template <class F>
  __device__ void each(int cols, F&& f) {
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (4 * four(j) + k < cols) f(v[j].v[k], 4 * four(j) + k);
    }
  }
  __device__ static int four(int j) { return static_cast<int>(threadIdx.x) + j * kThreads; }
};

// The widest row that registers hold: 32 values for each of 512 threads, two blocks on a multiprocessor.
inline constexpr int64_t kRegisterCols = 32 * 512;

// GIVE(kernel, threads) with the KERNEL<kFours, kThreads> that fits rows of COLS. REQUIRES: COLS <= kRegisterCols.
#define INGOT_GIVE_REGISTER_ROW(KERNEL, COLS, GIVE) \
  do {                                              \
    if ((COLS) <= 4 * 128) {                        \
      GIVE(KERNEL<1, 128>, 128);                    \
    } else if ((COLS) <= 16 * 256) {                \
      GIVE(KERNEL<4, 256>, 256);                    \
    } else {                                        \
      GIVE(KERNEL<8, 512>, 512);                    \
    }                                               \
  } while (false)

}  // namespace ingot::cuda
