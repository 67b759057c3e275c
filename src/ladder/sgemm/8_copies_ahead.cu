// Copies into a ring of three tiles that no thread waits for: the next ones come while this one is multiplied.
#include "ladder/cuda_step.cuh"
#include "ladder/sgemm/sgemm.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace sgemm_parts;

constexpr int kDepth = 16, kStages = 3;

struct Stage {
  float a[kDepth][kTile + 4];  // turned, word by word
  float b[kDepth][kTile];
};

// What this thread copies: word k of rows `row`, row + 16 … of a, and 16 bytes of two rows of b.
struct Part {
  const float* a;
  const float* b;
  int64_t a_step, b_step;  // to the next row that it copies

  __device__ Part(const Product& p, const TileOf& tile)
      : a(p.a + static_cast<int64_t>(tile.row + row()) * p.k + depth()),
        b(p.b + static_cast<int64_t>(b_row()) * p.n + tile.col + b_col()),
        a_step(int64_t{kThreads / kDepth} * p.k),
        b_step(int64_t{kThreads / 32} * p.n) {}
  static __device__ int depth() { return static_cast<int>(threadIdx.x) % kDepth; }
  static __device__ int row() { return static_cast<int>(threadIdx.x) / kDepth; }
  static __device__ int b_row() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ int b_col() { return static_cast<int>(threadIdx.x) % 32 * 4; }

  // Copies the next kDepth of k.
  __device__ void copy(Stage& stage) {
    const float* from = a;
#pragma unroll
    for (int i = 0; i < kTile; i += kThreads / kDepth, from += a_step)
      copy_async_word(&stage.a[depth()][row() + i], from);
    a += kDepth;
#pragma unroll
    for (int i = 0; i < kDepth; i += kThreads / 32, b += b_step) copy_async(&stage.b[b_row() + i][b_col()], b);
  }
};

__global__ void __launch_bounds__(kThreads, 2) sgemm(const Product p) {
  let_next_begin();
  wait_for_inputs();
  Stage* ring = shared_memory<Stage>();
  const TileOf tile = tile_of(static_cast<int>(blockIdx.x), p.m / kTile, p.n / kTile);
  const Place at = place_in_warps();
  Part part(p, tile);
  float sums[8][8] = {};
  for (int s = 0; s < kStages - 1; ++s) {
    if (s * kDepth < p.k) part.copy(ring[s]);
    commit_copies();
  }
  int now = 0, next = kStages - 1;
  for (int first = 0; first < p.k; first += kDepth) {
    copies_done<kStages - 2>();
    __syncthreads();  // and nobody reads the stage that is filled next
    const int ahead = first + (kStages - 1) * kDepth;
    if (ahead < p.k) part.copy(ring[next]);
    commit_copies();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) multiply_k(sums, ring[now].a[k], ring[now].b[k], at);
    now = now == kStages - 1 ? 0 : now + 1;
    next = next == kStages - 1 ? 0 : next + 1;
  }
  store_sums(sums, p, tile.row, tile.col, at);
}

}  // namespace

void run(const Sgemm& op, Ctx& ctx) {
  const Product p = product_of(op, ctx.rows(op.out));
  if (!p.has_tiles(kTile, kTile, kDepth)) return by_columns(p, ctx);
  by_tiles(p, ctx, sgemm, kStages * sizeof(Stage));
}

}  // namespace ingot::cuda::INGOT_STEP
