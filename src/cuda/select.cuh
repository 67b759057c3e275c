// Choosing the first of a row's elements in some order without sorting them: as many as are wanted, or the fewest that
// have a wanted mass. Amounts are integers, so that sums are the same in every order. By one block of kSelectThreads.
#pragma once

#include "cuda/elements.cuh"
#include "cuda/order.cuh"

namespace ingot::cuda {

inline constexpr int kSelectThreads = 512;
inline constexpr int kGather = 2 * kSelectThreads;
using Amount = unsigned long long;  // atomicAdd's type

// Calls f(x, i) for the elements of a row of floats, each by one thread. Three loads are in flight while a fourth's
// values are looked at: a block that has a row for itself waits for the memory otherwise. kCopies: of f's code, 4 where
// it is short.
template <int kCopies = 4, class F>
__device__ inline void each_of_row(const float* row, int n, bool wide, const F& f) {
  const std::byte* bytes = reinterpret_cast<const std::byte*>(row);
  const int step = static_cast<int>(blockDim.x);
  int i = static_cast<int>(threadIdx.x);
  const auto read = [&](int at) { return 4 * at < n ? get_four(bytes, at, n, DType::kF32, wide) : Four{}; };
  Four a = read(i), b = read(i + step), c = read(i + 2 * step);
  for (; 4 * i < n; i += step) {
    const Four d = read(i + 3 * step);
#pragma unroll kCopies
    for (int k = 0; k < 4; ++k) {
      const float x = k == 0 ? a.v[0] : k == 1 ? a.v[1] : k == 2 ? a.v[2] : a.v[3];
      if (4 * i + k < n) f(x, 4 * i + k);
    }
    a = b;
    b = c;
    c = d;
  }
}

// The last element that is chosen: chosen are those with a larger key, and of its own key those up to its index.
struct Border {
  uint64_t key = 0;
  uint32_t id = 0xffffffffu;
  __device__ bool chooses(uint64_t other, uint32_t index) const { return other > key || (other == key && index <= id); }
};

// Equal bins from `first` down to `last`: a value's bin grows where the value falls.
struct Bins {
  float first, scale;
  __device__ Bins(float largest, float least) : first(largest), scale(0) {
    if (largest > least) scale = static_cast<float>(kSelectThreads - 1) / (largest - least);
  }
  __device__ int of(float x) const {
    if (x >= first) return 0;
    const float bin = (first - x) * scale;
    return bin < static_cast<float>(kSelectThreads - 1) ? static_cast<int>(bin) : kSelectThreads - 1;
  }
};

// Shared memory of find_border().
struct SelectRoom {
  Amount amount[kSelectThreads];
  uint64_t key[kGather];
  Amount weight[kGather];
  uint32_t id[kGather];
  uint32_t count[kSelectThreads];
  uint64_t sums[32];
  Amount above;
  uint32_t bin, in_bin, gathered;
  Border border;
};

// The first bin in which the amounts, with `above` before them, reach `wanted`. Sets room.bin, in_bin (its count) and
// above (all before the bin). False where they do not.
__device__ inline bool pick_bin(SelectRoom& room, Amount wanted) {
  const int t = static_cast<int>(threadIdx.x), lane = t % 32;
  __syncthreads();
  const Amount own = room.amount[t], above = room.above;
  Amount sum = own;
  for (int d = 1; d < 32; d <<= 1) {
    const Amount other = __shfl_up_sync(0xffffffffu, sum, d);
    if (lane >= d) sum += other;
  }
  if (lane == 31) room.sums[t / 32] = sum;
  __syncthreads();
  for (int w = 0; w < t / 32; ++w) sum += room.sums[w];
  const bool mine = own > 0 && above + sum >= wanted && above + sum - own < wanted;
  if (mine) {
    room.bin = static_cast<uint32_t>(t);
    room.in_bin = room.count[t];
    room.above = above + sum - own;
  }
  return __syncthreads_or(mine ? 1 : 0) != 0;
}

// One level: what lies in each bin of `bin_of`, -1 for elements that take no part, and which one holds the border.
template <class Each, class BinOf>
__device__ bool narrow(SelectRoom& room, Amount wanted, const Each& each, const BinOf& bin_of) {
  const int t = static_cast<int>(threadIdx.x);
  __syncthreads();
  room.amount[t] = 0;
  room.count[t] = 0;
  __syncthreads();
  each([&](uint64_t key, uint32_t id, Amount amount) {
    const int bin = bin_of(key, id);
    if (bin < 0) return;
    atomicAdd(&room.amount[bin], amount);
    atomicAdd(&room.count[bin], 1u);
  });
  return pick_bin(room, wanted);
}

// The border among the gathered, at most kGather: every one adds up all before it.
__device__ inline void rank_gathered(SelectRoom& room, Amount wanted) {
  __syncthreads();
  const int n = static_cast<int>(room.gathered);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kSelectThreads) {
    const uint64_t key = room.key[i];
    const uint32_t id = room.id[i];
    Amount before = room.above;
    for (int j = 0; j < n; ++j)
      if (room.key[j] > key || (room.key[j] == key && room.id[j] < id)) before += room.weight[j];
    if (before < wanted && before + room.weight[i] >= wanted) {
      room.border.key = key;
      room.border.id = id;
    }
  }
  __syncthreads();
}

// The border of the fewest elements, by falling key and then by rising index, whose amounts reach `wanted`; all of them
// where they do not. each(f) calls f(key, index, amount) for every element, by some thread, the same in each call.
// coarse(key): a bin that does not fall where the key falls; the better it spreads, the fewer walks: two where no bin
// has more than kGather. REQUIRES: wanted > 0, bits of keys below `low` are zero, indices below 2^27.
template <class Each, class Coarse>
__device__ Border find_border(SelectRoom& room, Amount wanted, int low, const Each& each, const Coarse& coarse) {
  constexpr int kDigit = 9;  // log2(kSelectThreads)
  constexpr uint32_t kMask = kSelectThreads - 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    room.above = 0;
    room.gathered = 0;
    room.border = Border();
  }
  if (!narrow(room, wanted, each, [&](uint64_t key, uint32_t) { return coarse(key); })) return Border();
  const int bin = static_cast<int>(room.bin);
  // Many in one bin: the digits of the key, then those of the index.
  int shift = 64, id_shift = 27;  // what lies above has been fixed
  uint64_t prefix = 0;
  uint32_t id_prefix = 0;
  const auto inside = [&](uint64_t key, uint32_t id) {
    return coarse(key) == bin && (shift == 64 || key >> shift == prefix) && id >> id_shift == id_prefix;
  };
  while (room.in_bin > kGather && id_shift > 0) {
    if (shift > low) {
      const int next = shift - low > kDigit ? shift - kDigit : low;
      const uint32_t mask = (1u << (shift - next)) - 1;
      narrow(room, wanted, each, [&](uint64_t key, uint32_t id) {
        return inside(key, id) ? static_cast<int>(mask - (static_cast<uint32_t>(key >> next) & mask)) : -1;
      });
      prefix = (shift == 64 ? 0 : prefix << (shift - next)) | (mask - room.bin);
      shift = next;
    } else {
      const int next = id_shift - kDigit;
      narrow(room, wanted, each,
             [&](uint64_t key, uint32_t id) { return inside(key, id) ? static_cast<int>(id >> next & kMask) : -1; });
      id_prefix = id_prefix << kDigit | room.bin;
      id_shift = next;
    }
  }
  each([&](uint64_t key, uint32_t id, Amount amount) {
    if (!inside(key, id)) return;
    const uint32_t place = atomicAdd(&room.gathered, 1u);
    room.key[place] = key;
    room.id[place] = id;
    room.weight[place] = amount;
  });
  rank_gathered(room, wanted);
  return room.border;
}

// A value that at least k of the elements reach, where every thread gives the largest of its own (-inf where it has
// none): the k-th of these. What is below it is not among the k largest. -inf where k is more than the threads.
__device__ inline float reached_by(SelectRoom& room, int k, float largest) {
  const int t = static_cast<int>(threadIdx.x);
  if (k > kSelectThreads) return -INFINITY;
  __syncthreads();
  const uint64_t own = order_key(largest, t);
  room.key[t] = own;
  __syncthreads();
  int before = 0;
  for (int i = 0; i < kSelectThreads; ++i) before += room.key[i] > own ? 1 : 0;
  if (before == k - 1) room.border.key = own;
  __syncthreads();
  return key_value(room.border.key);
}

// The k largest of a row, NaN below all others: calls put(place, x, i) for each, in any order. REQUIRES: k <= n.
template <class Put>
__device__ void top_of_row(SelectRoom& room, const float* row, int n, bool wide, int k, const Put& put) {
  float largest = -INFINITY, least = INFINITY;
  each_of_row(row, n, wide, [&](float x, int) {
    largest = fmaxf(largest, x);
    if (x > -INFINITY) least = fminf(least, x);
  });
  float floor = reached_by(room, k, largest);
  float* floats = reinterpret_cast<float*>(room.sums);
  largest = block_max(largest, floats);
  least = -block_max(-least, floats);
  if (floor > -INFINITY) least = floor;
  // An infinite range has no equal bins: one for all, and their bits decide.
  const Bins bins(largest < INFINITY ? largest : least, least);
  const auto each = [&](const auto& f) {
    each_of_row(row, n, wide, [&](float x, int i) {
      if (!(x < floor)) f(value_key(x), static_cast<uint32_t>(i), Amount{1});
    });
  };
  const auto coarse = [&](uint64_t key) { return key == 0 ? kSelectThreads - 1 : bins.of(key_value(key)); };
  const Border border = find_border(room, static_cast<Amount>(k), 32, each, coarse);
  __syncthreads();
  if (threadIdx.x == 0) room.gathered = 0;
  __syncthreads();
  each_of_row(row, n, wide, [&](float x, int i) {
    if (border.chooses(value_key(x), static_cast<uint32_t>(i))) put(atomicAdd(&room.gathered, 1u), x, i);
  });
}

// Sorts n elements in place: before(i, j) says whether element i comes before j, swap(i, j) exchanges them. All
// exchanges move what comes first to the lower place, so any n will do.
template <class Before, class Swap>
__device__ void sort_block(int n, const Before& before, const Swap& swap) {
  int size = 1;
  while (size < n) size *= 2;
  const auto step = [&](auto partner) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < size / 2; i += static_cast<int>(blockDim.x)) {
      const auto [a, b] = partner(i);
      if (b < n && before(b, a)) swap(a, b);
    }
  };
  struct Pair {
    int a, b;
  };
  for (int run = 2; run <= size; run *= 2) {
    step([=](int i) {
      const int first = i / (run / 2) * run, k = i % (run / 2);
      return Pair{first + k, first + run - 1 - k};
    });
    for (int half = run / 4; half > 0; half /= 2)
      step([=](int i) { return Pair{i / half * 2 * half + i % half, i / half * 2 * half + i % half + half}; });
  }
  __syncthreads();
}

}  // namespace ingot::cuda
