#include "matmul/cuda/experts/experts_list.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 1024;

__global__ void __launch_bounds__(kThreads) list_kernel(const ExpertChoice choice, int tile, const ExpertList list) {
  let_next_begin();
  wait_for_inputs();
  const auto expert = [&](int row, int j) { return choice.experts[row * choice.stride + j]; };
  make_list(choice, *choice.true_rows, tile, list, shared_memory<std::byte>(), expert);
}

// Many rows: kBlocks blocks of `each` rows count their places of every expert, one block adds them up and deals tiles,
// and each puts its places where they belong. One block alone takes 0.3 ms for 131,072 places.
constexpr int kBlocks = 128, kSomeThreads = 256, kManyRows = 2048;

struct ListParts {
  ExpertChoice choice;
  int each = 0;  // rows of a block, a multiple of 32
  int tile = 0;
  ExpertList list;
  int32_t* counts = nullptr;  // [kBlocks][E] of a block; then the places of blocks before it
  int32_t* first = nullptr;   // [E] where an expert's places begin

  __device__ int begin() const { return static_cast<int>(blockIdx.x) * each; }
  __device__ int end() const { return min(*choice.true_rows, begin() + each); }
  __device__ int expert(int row, int p) const { return choice.experts[row * choice.stride + (p - row * choice.used)]; }
};

__global__ void __launch_bounds__(kSomeThreads) count_places(const ListParts parts) {
  let_next_begin();
  wait_for_inputs();
  int32_t* own = shared_memory<int32_t>();
  const int count = parts.choice.count, used = parts.choice.used, thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e < count; e += kSomeThreads) own[e] = 0;
  __syncthreads();
  for (int p = parts.begin() * used + thread; p < parts.end() * used; p += kSomeThreads)
    atomicAdd(own + parts.expert(p / used, p), 1);
  __syncthreads();
  for (int e = thread; e < count; e += kSomeThreads) parts.counts[static_cast<int>(blockIdx.x) * count + e] = own[e];
}

__global__ void __launch_bounds__(kThreads) deal_counts(const ListParts parts) {
  let_next_begin();
  wait_for_inputs();
  uint64_t* totals = shared_memory<uint64_t>();
  int32_t* next = reinterpret_cast<int32_t*>(totals + 32);
  const int count = parts.choice.count;
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kThreads) {
    int before = 0;
    for (int b = 0; b < kBlocks; b += 16) {
      int own[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) own[i] = parts.counts[(b + i) * count + e];
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        parts.counts[(b + i) * count + e] = before;
        before += own[i];
      }
    }
    next[e] = before;
  }
  __syncthreads();
  detail::deal_tiles(count, parts.tile, parts.list, next, totals);
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kThreads) parts.first[e] = next[e];
}

__global__ void __launch_bounds__(kSomeThreads) put_places(const ListParts parts) {
  let_next_begin();
  wait_for_inputs();
  const int count = parts.choice.count, used = parts.choice.used, thread = static_cast<int>(threadIdx.x);
  const int words = parts.each / 32;
  int32_t* next = shared_memory<int32_t>();
  uint32_t* has = reinterpret_cast<uint32_t*>(next + count);  // [count][words] a bit for each row
  for (int e = thread; e < count; e += kSomeThreads)
    next[e] = parts.first[e] + parts.counts[static_cast<int>(blockIdx.x) * count + e];
  for (int i = thread; i < count * words; i += kSomeThreads) has[i] = 0;
  __syncthreads();
  for (int p = parts.begin() * used + thread; p < parts.end() * used; p += kSomeThreads) {
    const int row = p / used, at = row - parts.begin();
    atomicOr(has + parts.expert(row, p) * words + at / 32, 1u << at % 32);
  }
  __syncthreads();
  for (int p = parts.begin() * used + thread; p < parts.end() * used; p += kSomeThreads) {
    const int row = p / used, e = parts.expert(row, p), at = row - parts.begin();
    const uint32_t* bits = has + e * words;
    int rank = __popc(bits[at / 32] & ((1u << at % 32) - 1));
    for (int w = 0; w < at / 32; ++w) rank += __popc(bits[w]);
    parts.list.place[next[e] + rank] = p;
  }
}

void list_many(const ExpertChoice& choice, int64_t rows, int tile, const ExpertList& list, const DeviceCtx& ctx) {
  ListParts parts;
  parts.choice = choice;
  parts.each = static_cast<int>(ceil_div(rows, kBlocks * 32)) * 32;
  parts.tile = tile;
  parts.list = list;
  parts.first = reinterpret_cast<int32_t*>(ctx.scratch);
  parts.counts = parts.first + choice.count;
  const int64_t count = choice.count;
  launch(ctx, count_places, {dim3(kBlocks), dim3(kSomeThreads), count * 4}, parts);
  launch(ctx, deal_counts, {dim3(1), dim3(kThreads), 256 + count * 4}, parts);
  launch(ctx, put_places, {dim3(kBlocks), dim3(kSomeThreads), count * (1 + parts.each / 32) * 4}, parts);
}

}  // namespace

int64_t list_scratch(int64_t count) { return (kBlocks + 1) * count * 4; }

void list_experts(const ExpertChoice& choice, int64_t rows, int tile, const ExpertList& list, const DeviceCtx& ctx) {
  // Beyond it the bits of a block's rows would not fit.
  constexpr int64_t kMostBytes = 160 << 10;
  const int64_t bits = (1 + ceil_div(rows, kBlocks * 32)) * choice.count * 4;
  if (rows > kManyRows && bits <= kMostBytes) return list_many(choice, rows, tile, list, ctx);
  const int64_t places = rows * choice.used;
  const int64_t threads = places <= 256 ? 256 : kThreads;
  launch(ctx, list_kernel, {dim3(1), dim3(threads), list_shared(choice.count)}, choice, tile, list);
}

}  // namespace ingot::cuda
