// All digits are counted in one reading, and tiles look back for their places: a pass reads and writes keys once.
#include "ladder/cuda_step.cuh"
#include "ladder/sort/sort.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kDigits = 256, kPasses = 4;

// --- Counting: a counter for each pass, digit and lane, each lane's in its own bank ---

constexpr int kCountThreads = 1024;
constexpr int64_t kCountShared = int64_t{kPasses} * kDigits * 32 * 4;

__device__ inline void count_key(uint32_t key, uint32_t* own, uint32_t lane) {
#pragma unroll
  for (int p = 0; p < kPasses; ++p) atomicAdd(own + ((p * kDigits + (key >> 8 * p & 255)) << 5 | lane), 1u);
}

// counts[pass][digit] becomes where the digit's keys begin, by the block that ends last.
__global__ void __launch_bounds__(kCountThreads)
    count_all(const uint32_t* keys, int64_t n, uint32_t* counts, uint32_t* ticket) {
  let_next_begin();
  wait_for_inputs();
  uint32_t* own = shared_memory<uint32_t>();
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kPasses * kDigits * 32; i += kCountThreads) own[i] = 0;
  __syncthreads();
  const uint32_t lane = threadIdx.x & 31;
  const int64_t quads = n / 4, stride = static_cast<int64_t>(gridDim.x) * kCountThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kCountThreads + thread;
  const auto take = [&](const uint4& v) {
    count_key(v.x, own, lane);
    count_key(v.y, own, lane);
    count_key(v.z, own, lane);
    count_key(v.w, own, lane);
  };
  int64_t i = first;
  for (; i + 3 * stride < quads; i += 4 * stride) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = load_stream(keys + 4 * (i + k * stride));
#pragma unroll
    for (int k = 0; k < 4; ++k) take(v[k]);
  }
  for (; i < quads; i += stride) take(load_stream(keys + 4 * i));
  if (first < n - 4 * quads) count_key(keys[4 * quads + first], own, lane);
  __syncthreads();
  // kCountThreads = kPasses · kDigits: a thread for each counter.
  uint32_t sum = 0;
#pragma unroll 8
  for (int l = 0; l < 32; ++l) sum += own[thread * 32 + ((l + thread) & 31)];
  if (sum != 0) atomicAdd(counts + thread, sum);
  __threadfence();
  __syncthreads();
  if (thread == 0) own[0] = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1 ? 1 : 0;
  __syncthreads();
  const bool last = own[0] != 0;
  __syncthreads();
  if (!last) return;
  __threadfence();
  const uint32_t count = look(counts + thread);
  sum = count;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    const uint32_t other = __shfl_up_sync(0xffffffffu, sum, d);
    if (static_cast<int>(lane) >= d) sum += other;
  }
  if (lane == 31) own[thread / 32] = sum;
  __syncthreads();
  for (int w = thread / kDigits * 8; w < thread / 32; ++w) sum += own[w];
  counts[thread] = sum - count;
}

// --- A pass ---

constexpr int kThreads = 512, kWarps = kThreads / 32, kKeys = 32, kTile = kThreads * kKeys;
// What a tile publishes of a digit: how many keys it has itself, or it and all before it.
constexpr uint32_t kOwn = 1u << 30, kAll = 1u << 31, kCount = kOwn - 1;

struct Room {
  uint32_t keys[kTile];            // in order of their digit
  uint32_t seen[kWarps][kDigits];  // the place in `keys` of a warp's next key
  uint32_t place[kDigits];         // add it to a place in `keys`: that in `to`
  uint32_t sums[kDigits / 32];
  uint32_t tile;
};

struct Pass {
  const uint32_t* from;
  uint32_t* to;
  int64_t n;
  int shift;
  const uint32_t* first;  // [256] where a digit's keys begin
  uint32_t* words;        // [tiles][256]
  uint32_t* counter;

  __device__ uint32_t digit(uint32_t key) const { return key >> shift & 255; }
};

// How many keys of the digit are in the tiles before. Four tiles at a time: one would take 0.7 us for each.
__device__ inline uint32_t count_before(const uint32_t* words, int64_t tile, uint32_t digit) {
  uint32_t sum = 0;
  for (int64_t at = tile - 1; at >= 0;) {
    uint32_t some[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) some[k] = at - k >= 0 ? look(words + (at - k) * kDigits + digit) : kAll;
    bool ready = true;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      ready = ready && some[k] != 0;
      if (!ready || at < 0) continue;
      sum += some[k] & kCount;
      at = (some[k] & kAll) != 0 ? -1 : at - 1;
      // The rest of the four is behind it.
      if (at < 0) ready = false;
    }
    if (at >= 0 && !ready) look_again();
  }
  return sum;
}

// Publishes the tile's counts and makes them places within the tile. Returns, for threads below 256, the first place of
// the digit and its count.
__device__ inline uint2 place_in_tile(const Pass& pass, Room& room, int64_t tile) {
  const uint32_t digit = threadIdx.x, lane = threadIdx.x % 32;
  uint32_t own = 0, start = 0;
  if (digit < kDigits) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) own += room.seen[w][digit];
    publish(pass.words + tile * kDigits + digit, own | (tile == 0 ? kAll : kOwn));
    start = own;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const uint32_t other = __shfl_up_sync(0xffffffffu, start, d);
      if (static_cast<int>(lane) >= d) start += other;
    }
    if (lane == 31) room.sums[digit / 32] = start;
  }
  __syncthreads();
  if (digit < kDigits) {
    start -= own;
    for (uint32_t w = 0; w < digit / 32; ++w) start += room.sums[w];
    uint32_t next = start;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const uint32_t count = room.seen[w][digit];
      room.seen[w][digit] = next;
      next += count;
    }
  }
  __syncthreads();
  return make_uint2(start, own);
}

__global__ void __launch_bounds__(kThreads, 2) sweep(const Pass pass) {
  let_next_begin();
  wait_for_inputs();
  Room& room = *shared_memory<Room>();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) room.tile = atomicAdd(pass.counter, 1u);
  for (int i = static_cast<int>(threadIdx.x); i < kWarps * kDigits; i += kThreads) room.seen[0][i] = 0;
  __syncthreads();
  const int64_t tile = room.tile, left = pass.n - tile * kTile;
  const int count = left < kTile ? static_cast<int>(left) : kTile;
  const uint32_t* from = pass.from + tile * kTile;
  const int mine = warp * (32 * kKeys) + lane;
  uint32_t keys[kKeys];
  if (count == kTile) {
#pragma unroll
    for (int j = 0; j < kKeys; ++j) keys[j] = from[mine + 32 * j];
#pragma unroll
    for (int j = 0; j < kKeys; ++j) atomicAdd(&room.seen[warp][pass.digit(keys[j])], 1u);
  } else {
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      keys[j] = mine + 32 * j < count ? from[mine + 32 * j] : 0xffffffffu;
      if (mine + 32 * j < count) atomicAdd(&room.seen[warp][pass.digit(keys[j])], 1u);
    }
  }
  __syncthreads();
  const uint2 own = place_in_tile(pass, room, tile);
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    const uint32_t digit = pass.digit(keys[j]);
    const unsigned peers = sort_parts::ByVotes<8>::peers(digit), lower = peers & ((1u << lane) - 1);
    const uint32_t next = room.seen[warp][digit];
    __syncwarp();
    if (lower == 0) room.seen[warp][digit] = next + static_cast<uint32_t>(__popc(peers));
    __syncwarp();
    room.keys[next + static_cast<uint32_t>(__popc(lower))] = keys[j];
  }
  if (threadIdx.x < kDigits) {
    const uint32_t digit = threadIdx.x, before = count_before(pass.words, tile, digit);
    if (tile > 0) publish(pass.words + tile * kDigits + digit, (before + own.y) | kAll);
    room.place[digit] = pass.first[digit] + before - own.x;
  }
  __syncthreads();
  const auto put = [&](int i) {
    const uint32_t key = room.keys[i];
    pass.to[room.place[pass.digit(key)] + static_cast<uint32_t>(i)] = key;
  };
  if (count == kTile) {
#pragma unroll 8
    for (int j = 0; j < kKeys; ++j) put(j * kThreads + static_cast<int>(threadIdx.x));
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) put(i);
  }
}

}  // namespace

void run(const Sort& op, Ctx& ctx) {
  const int64_t n = op.keys.cols, tiles = ceil_div(n, kTile);
  if (n == 0) return;
  auto* other = reinterpret_cast<uint32_t*>(ctx.scratch);
  auto* out = reinterpret_cast<uint32_t*>(op.out.data);
  uint32_t* counts = other + ceil_div(n, 64) * 64;  // [4][256]
  uint32_t* counters = counts + kPasses * kDigits;  // [4]
  uint32_t* words = counters + 64;                  // [4][tiles][256]
  fill_bytes(counts, 0, 4 * (words - counts + kPasses * tiles * kDigits), ctx.stream);
  const auto* keys = reinterpret_cast<const uint32_t*>(op.keys.data);
  launch(ctx, count_all,
         {std::min<int64_t>(ctx.multiprocessors, ceil_div(n, 4 * kCountThreads)), kCountThreads, kCountShared}, keys, n,
         counts, ctx.tickets);
  for (int p = 0; p < kPasses; ++p) {
    const Pass pass{.from = p == 0       ? keys
                            : p % 2 == 0 ? out
                                         : other,
                    .to = p % 2 == 0 ? other : out,
                    .n = n,
                    .shift = 8 * p,
                    .first = counts + p * kDigits,
                    .words = words + p * tiles * kDigits,
                    .counter = counters + p};
    launch_in_turn(ctx, sweep, {tiles, kThreads, sizeof(Room)}, pass);
  }
}

}  // namespace ingot::cuda::INGOT_STEP
