// Products of two matrices by clusters of blocks that run on tiles: what two blocks need comes once from the cache and
// goes to both. A tile T is a ClusterPlace with kM by kN results, kK columns of 16 bits a step (rows of 128 bytes);
// kStages of kStage bytes, of which kA are a's and the first kCopied both matrices'. Compute capability 9.0 alone.
#pragma once

#include <algorithm>

#include "cuda/tensor_copy.cuh"
#include "cuda/wgmma.cuh"

namespace ingot::cuda {

// Where a block is in its cluster: kDown blocks have the same columns, each copies its part of b for all of them;
// kAcross have the same rows and do so with a.
template <int kDown_, int kAcross_>
struct ClusterPlace {
  static constexpr int kDown = kDown_, kAcross = kAcross_, kBlocks = kDown * kAcross;

  int down, across;

  __device__ explicit ClusterPlace(int rank) : down(rank % kDown), across(rank / kDown) {}
  __device__ bool shares_with(int rank) const { return rank % kDown == down || rank / kDown == across; }
  __device__ uint32_t blocks_of_a() const {
    uint32_t bits = 0;
    for (int i = 0; i < kAcross; ++i) bits |= 1u << (down + kDown * i);
    return bits;
  }
  __device__ uint32_t blocks_of_b() const { return ((1u << kDown) - 1) << (kDown * across); }
};

// A part of K of a tile, in steps.
struct TileSteps {
  int tile, from, to;
};

// A product's sizes and what a cluster walks through: tiles in columns of kBand, so that what blocks read at a time
// fits the L2 cache. Where `split`, those that are left when every cluster has had the same number are cut along K into
// one part for each of `sharers` clusters: the one with a tile's last part adds what the others have of it. 32 bits:
// the thread that copies has 40 registers.
template <class T, int kBand>
struct ClusterWalk {
  static constexpr int kHigh = T::kM * T::kDown, kWide = T::kN * T::kAcross;
  int m, n, steps, tiles;
  int rounds = 0, sharers = 0;  // whole tiles of each cluster, where some are split

  ClusterWalk(int64_t rows, int64_t cols, int64_t k)
      : m(static_cast<int>(rows)),
        n(static_cast<int>(cols)),
        steps(static_cast<int>(ceil_div(k, T::kK))),
        tiles(static_cast<int>(ceil_div(rows, kHigh) * ceil_div(cols, kWide))) {}
  // Of `clusters` that stay.
  void split(int clusters) {
    rounds = tiles / clusters;
    sharers = std::min(clusters, std::min(steps, 4) * (tiles - rounds * clusters));  // each has a step or more
  }
  // Of tile i of the grid, this block's part.
  __device__ void place(const T& tile, int i, int& row, int& col) const {
    const int across = (n + kWide - 1) / kWide, down = (m + kHigh - 1) / kHigh;
    const int band = i / (kBand * across), first = band * kBand, high = min(kBand, down - first);
    const int in_band = i - band * kBand * across;
    row = (first + in_band % high) * kHigh + tile.down * T::kM;
    col = in_band / high * kWide + tile.across * T::kN;
  }
  static __device__ int cluster() { return static_cast<int>(blockIdx.x) / T::kBlocks; }
  static __device__ int clusters() { return static_cast<int>(gridDim.x) / T::kBlocks; }
  // Where the part of sharer c begins, in steps of all the tiles that are split.
  __device__ int share(int c) const { return (tiles - rounds * clusters()) * steps / sharers * c + rest(c); }
  __device__ int rest(int c) const { return (tiles - rounds * clusters()) * steps % sharers * c / sharers; }
  // Number i of what this cluster does; false where there is no more. Of two parts the one comes first that another
  // cluster waits for.
  __device__ bool part(int i, TileSteps& at) const {
    if (sharers == 0 || i < rounds) {
      at = {cluster() + i * clusters(), 0, steps};
      return at.tile < tiles;
    }
    if (cluster() >= sharers) return false;
    const int begin = share(cluster()), end = share(cluster() + 1), border = (end - 1) / steps * steps;
    if (begin == end || i > rounds + (begin < border ? 1 : 0)) return false;
    const bool upper = i == rounds && begin < border;
    const int from = upper || begin >= border ? max(begin, border) : begin,
              to = upper || begin >= border ? end : border;
    const int tile = from / steps;
    at = {rounds * clusters() + tile, from - tile * steps, to - tile * steps};
    return true;
  }
  // Whether sharer c has a part of the tile before the one that ends it; c counts down from that one's.
  __device__ bool has_part(int c, int tile) const { return share(c + 1) > (tile - rounds * clusters()) * steps; }
};

// Word n of lane t of each four lanes becomes word t of lane n.
__device__ inline void turn_words(uint32_t (&words)[4], int t) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool upper = (t & bit) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & bit) != 0) continue;
      const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + bit], bit);
      if (upper) {
        words[i] = got;
      } else {
        words[i + bit] = got;
      }
    }
  }
}

// 64 rows of 2 kFloats results, 16 bytes of a lane at a time: four lanes write 64 bytes of a row. REQUIRES: columns and
// the stride of `out` are multiples of 8.
template <int kFloats>
__device__ void store_rows(const float* acc, const View& out, int64_t rows, int64_t row, int64_t col) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4, t = lane % 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t r = row + 16 * warp + 8 * h + lane / 4;
    std::byte* to = out.row(r);
#pragma unroll
    for (int q = 0; q < kFloats / 16; ++q) {
      uint32_t words[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) words[n] = pack_bf16(acc[16 * q + 4 * n + 2 * h], acc[16 * q + 4 * n + 2 * h + 1]);
      turn_words(words, t);
      const int64_t c = col + 32 * q + 8 * t;
      if (r < rows && c < out.cols)
        *reinterpret_cast<uint4*>(to + c * 2) = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

// The sums of a warp that another cluster ends, and its flag. 128 KiB of each block.
inline constexpr int kPartFloats = 128 * 256;
struct HandedSums {
  float* sums = nullptr;
  uint32_t* flags = nullptr;  // zeros before and after; 8 of each block

  __device__ float* of(int block, int thread) const { return sums + int64_t{block} * kPartFloats + thread * 4; }
  __device__ void give(const float (&acc)[128], int thread) const {
    float* to = of(static_cast<int>(blockIdx.x), thread);
#pragma unroll
    for (int i = 0; i < 32; ++i)
      *reinterpret_cast<float4*>(to + i * 1024) =
          make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
    __threadfence();
    __syncwarp();
    if (thread % 32 == 0) publish(flags + blockIdx.x * 8 + thread / 32, 1u);
  }
  __device__ void add(float (&acc)[128], int block, int thread) const {
    uint32_t* flag = flags + block * 8 + thread / 32;
    while (look(flag) == 0) look_again();
    __threadfence();
    const float* from = of(block, thread);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const float4 v = load_fresh4(from + i * 1024);
      acc[4 * i] += v.x, acc[4 * i + 1] += v.y, acc[4 * i + 2] += v.z, acc[4 * i + 3] += v.w;
    }
    __syncwarp();
    if (thread % 32 == 0) publish(flag, 0u);
  }
};

// What else a stage has behind the matrices, of the block's rows from `row` on.
struct NothingBeside {
  __device__ uint32_t bytes(int) const { return 0; }
  __device__ void copy(int, int, std::byte*, CopyBarrier*) const {}
};

// The stages of one block's tiles on their way into the ring, by one thread.
template <class T, int kBand, class Beside = NothingBeside>
__device__ void copy_stages(const TensorMap& a, const TensorMap& b, const ClusterWalk<T, kBand>& walk, const T& tile,
                            std::byte* shared, CopyBarrier* full, CopyBarrier* empty, const Beside& beside = {}) {
  constexpr int kRowsA = T::kM / T::kAcross, kRowsB = T::kN / T::kDown;
  const uint32_t of_a = tile.blocks_of_a(), of_b = tile.blocks_of_b();
  int at = 0;
  uint32_t parity = 1;  // of a stage that nobody has used: done
  TileSteps part;
  for (int i = 0; walk.part(i, part); ++i) {
    int row, col;
    walk.place(tile, part.tile, row, col);
    const int own = row;
    row += tile.across * kRowsA;
    col += tile.down * kRowsB;
    for (int s = part.from; s < part.to; ++s) {
      std::byte* to_a = shared + at * T::kStage + tile.across * kRowsA * 128;
      std::byte* to_b = shared + at * T::kStage + T::kA + tile.down * kRowsB * 128;
      barrier_wait(empty + at, parity);
      barrier_expect(full + at, T::kCopied + beside.bytes(own));
      beside.copy(own, s, shared + at * T::kStage + T::kCopied, full + at);
      if constexpr (T::kAcross > 1) {
        copy_tensor(to_a, a, s * T::kK, row, full + at, of_a);
      } else {
        copy_tensor(to_a, a, s * T::kK, row, full + at);
      }
      if constexpr (T::kDown > 1) {
        copy_tensor(to_b, b, s * T::kK, col, full + at, of_b);
      } else {
        copy_tensor(to_b, b, s * T::kK, col, full + at);
      }
      if (++at == T::kStages) {
        at = 0;
        parity ^= 1;
      }
    }
  }
}

// How the tiles are shared out: a cluster for each; to as many as the device runs at a time, which stay; and with the
// last ones cut along K.
enum class Sharing { kEach, kStay, kSplit };

// How many clusters a walk wants. Its last tiles are cut where scratch holds what blocks hand to each other.
template <class T, int kBand>
int clusters_of(ClusterWalk<T, kBand>& walk, Sharing sharing, int multiprocessors, int64_t scratch_bytes) {
  const int at_a_time = std::max(multiprocessors / T::kBlocks, 1);
  if (sharing == Sharing::kEach) return walk.tiles;
  if (sharing == Sharing::kStay) return std::min(walk.tiles, at_a_time);
  if (scratch_bytes >= int64_t{4} * kPartFloats * T::kBlocks * at_a_time) walk.split(at_a_time);
  return at_a_time;
}

// Of bf16: tiles of 128 by 256 results.
template <int kDown, int kAcross, int kStages_ = 4>
struct ClusterTile : ClusterPlace<kDown, kAcross> {
  using ClusterPlace<kDown, kAcross>::ClusterPlace;
  static constexpr int kStages = kStages_;
  static constexpr int kM = 128, kN = 256, kK = 64;
  static constexpr int kA = kM * 128, kCopied = kA + kN * 128, kStage = kCopied;  // bytes; rows of 128
  static constexpr int kBarriers = kStages * kStage;
  static constexpr int64_t kBytes = kBarriers + 2 * kStages * static_cast<int64_t>(sizeof(CopyBarrier));
  static constexpr int kWarps = 8;  // that multiply
};

template <class T, int kBand, class Store>
__device__ void multiply_stages(const Store& store, const ClusterWalk<T, kBand>& walk, const T& tile,
                                const HandedSums& handed, const std::byte* shared, CopyBarrier* full,
                                CopyBarrier* empty) {
  const int group = static_cast<int>(threadIdx.x) / 128 - 1, lane = static_cast<int>(threadIdx.x) % 32;
  const bool arrives = lane < T::kBlocks && tile.shares_with(lane);
  const auto give_back = [&](int at) {
    if constexpr (T::kBlocks > 1) {
      if (arrives) barrier_arrive_at(empty + at, lane);
    } else {
      if (arrives) barrier_arrive(empty + at);
    }
  };
  int at = 0, before = 0;
  uint32_t parity = 0;
  float acc[128];
  TileSteps part;
  for (int i = 0; walk.part(i, part); ++i) {
    for (int s = part.from; s < part.to; ++s) {
      const MatrixPlace a = matrix_by_rows(shared + at * T::kStage + group * 64 * 128),
                        b = matrix_by_rows(shared + at * T::kStage + T::kA);
      barrier_wait(full + at, parity);
      products_begin();
#pragma unroll
      for (int kk = 0; kk < T::kK / 16; ++kk)
        multiply_group<true, false>(acc, further(a, 32 * kk), further(b, 32 * kk), s > part.from || kk > 0);
      products_commit();
      products_done<1>();
      if (s > part.from) give_back(before);
      before = at;
      if (++at == T::kStages) {
        at = 0;
        parity ^= 1;
      }
    }
    products_done<0>(acc);
    give_back(before);
    const int thread = static_cast<int>(threadIdx.x) - 128;
    if (part.to < walk.steps) {
      handed.give(acc, thread);
      continue;
    }
    if (part.from > 0)
      for (int c = walk.cluster() - 1; c >= 0 && walk.has_part(c, part.tile); --c)
        handed.add(acc, c * T::kBlocks + cluster_rank(), thread);
    int row, col;
    walk.place(tile, part.tile, row, col);
    store(acc, walk.m, row + 64 * group, col);
  }
}

// The first warpgroup copies, by one thread; the other two multiply, 64 rows each, and give them to store(sums, rows,
// row, column). Clusters take tiles in turn.
template <class T, int kBand, class Store>
__global__ void __launch_bounds__(384, 1)
    gemm_clusters(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const Store store,
                  const ClusterWalk<T, kBand> walk, const HandedSums handed) {
#if INGOT_HAS_WGMMA
  let_next_begin();
  std::byte* shared = shared_memory<std::byte>();
  auto* full = reinterpret_cast<CopyBarrier*>(shared + T::kBarriers);
  CopyBarrier* empty = full + T::kStages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < T::kStages; ++i) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, T::kWarps * (T::kDown + T::kAcross - 1));
    }
    barrier_inits_done();
  }
  cluster_sync();
  wait_for_inputs();
  const T tile(cluster_rank());
  if (threadIdx.x < 128) {
    give_registers<40>();
    if (threadIdx.x == 0) copy_stages(a, b, walk, tile, shared, full, empty);
    __syncwarp();
  } else {
    take_registers<232>();
    multiply_stages(store, walk, tile, handed, shared, full, empty);
  }
  cluster_sync();  // others write into this block's memory until then
#endif
}

struct StoreRows {
  View out;

  __device__ void operator()(const float (&acc)[128], int64_t rows, int64_t row, int64_t col) const {
    store_rows<128>(acc, out, rows, row, col);
  }
};

}  // namespace ingot::cuda
