// A row that a block keeps in its registers, so that it is read once: what row-wise kernels share.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>

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

// The same where the types are known when compiled and groups of kSize values, 4 or 8, are whole: no branch on types
// costs registers, so that more loads and more rows are in flight (layer norm of 16384 columns in f32: 62 registers,
// where types that are asked for at run time need more than 64).
template <int kGroups, int kBlock, int kGroup>
struct TypedRow {
  static constexpr int kThreads = kBlock, kSize = kGroup, kCount = kGroups;
  float v[kGroups][kSize];

  // Values beyond the row are 0.
  template <DType kType>
  __device__ void load(const std::byte* row, int cols) {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
#pragma unroll
      for (int k = 0; k < kSize; ++k) v[j][k] = 0;
      if (within(j, cols)) load_group<kType>(row, group(j), v[j]);
    }
  }
  // f(values, group) for every group that this thread has within the row.
  template <class F>
  __device__ void each(int cols, F&& f) {
#pragma unroll
    for (int j = 0; j < kGroups; ++j)
      if (within(j, cols)) f(v[j], group(j));
  }
  template <DType kType>
  __device__ static void load_group(const std::byte* row, int i, float (&to)[kSize]) {
    if constexpr (kSize == 8 && kType == DType::kBF16) {
      const uint4 u = reinterpret_cast<const uint4*>(row)[i];
      const uint32_t words[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
      for (int k = 0; k < 8; ++k) to[k] = __uint_as_float(k % 2 == 0 ? words[k / 2] << 16 : words[k / 2] & 0xffff0000u);
    } else {
#pragma unroll
      for (int k = 0; k < kSize; k += 4) {
        const Four x = load_four(row, (kSize * i + k) / 4, kType);
#pragma unroll
        for (int l = 0; l < 4; ++l) to[k + l] = x.v[l];
      }
    }
  }
  template <DType kType>
  __device__ static void store_group(std::byte* row, int i, const float (&x)[kSize]) {
    if constexpr (kSize == 8 && kType == DType::kBF16) {
      uint4 u;
      u.x = pack_bf16(x[0], x[1]);
      u.y = pack_bf16(x[2], x[3]);
      u.z = pack_bf16(x[4], x[5]);
      u.w = pack_bf16(x[6], x[7]);
      reinterpret_cast<uint4*>(row)[i] = u;
    } else {
#pragma unroll
      for (int k = 0; k < kSize; k += 4)
        store_four(row, (kSize * i + k) / 4, kType, Four{{x[k], x[k + 1], x[k + 2], x[k + 3]}});
    }
  }
  __device__ static int group(int j) { return static_cast<int>(threadIdx.x) + j * kThreads; }
  __device__ static bool within(int j, int cols) { return kSize * group(j) < cols; }
};

// Whether groups of `size` values can be read and written at once in all rows of the tensor.
inline bool in_groups(const Tensor& t, int size) {
  const int64_t bytes = std::min<int64_t>(16, size * dtype_bytes(t.dtype));
  return t.cols % size == 0 && t.stride % size == 0 && reinterpret_cast<uintptr_t>(t.data) % bytes == 0;
}

// give(in, out, row): the types of inputs and outputs as constants, and the TypedRow that fits `cols`. These are f32,
// bf16, and f32 that becomes bf16, as graphs have them, in whole groups. False: no such kernel, nothing is given.
template <DType kType>
using TypeConstant = std::integral_constant<DType, kType>;
template <int kSize, class In, class Out, class Give>
bool give_row_of(int64_t cols, In in, Out out, Give&& give) {
  if (cols <= 512) {
    give(in, out, TypedRow<1, 512 / kSize, kSize>{});
  } else if (cols <= 4096) {
    give(in, out, TypedRow<16 / kSize, 256, kSize>{});
  } else if (cols <= 8192) {
    give(in, out, TypedRow<16 / kSize, 512, kSize>{});
  } else if (cols <= kRegisterCols) {
    give(in, out, TypedRow<32 / kSize, 512, kSize>{});
  } else {
    return false;
  }
  return true;
}
template <class Give>
bool give_typed_row(std::initializer_list<const Tensor*> in, const Tensor& out, int64_t cols, Give&& give) {
  const DType type = (*in.begin())->dtype;
  const bool alike = std::ranges::all_of(in, [&](const Tensor* t) { return t->dtype == type; });
  const bool bf16 = out.dtype == DType::kBF16;
  const int size = type == DType::kBF16 ? 8 : 4;
  const bool whole = std::ranges::all_of(in, [&](const Tensor* t) { return in_groups(*t, size); });
  if (!alike || !whole || !in_groups(out, size) || cols % size != 0) return false;
  constexpr TypeConstant<DType::kF32> kF32 = {};
  constexpr TypeConstant<DType::kBF16> kBF16 = {};
  if (type == DType::kBF16 && bf16) return give_row_of<8>(cols, kBF16, kBF16, give);
  if (type == DType::kF32 && bf16) return give_row_of<4>(cols, kF32, kBF16, give);
  if (type == DType::kF32 && out.dtype == DType::kF32) return give_row_of<4>(cols, kF32, kF32, give);
  return false;
}

}  // namespace ingot::cuda
