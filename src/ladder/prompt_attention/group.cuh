// Two warpgroups with 64 rows of a tile each, compute capability 9.0 alone. The next keys and values are copied by all
// threads while these are multiplied; a warpgroup waits for its scores, weighs them and waits for its values.
#pragma once

#include "ladder/prompt_attention/tiles.cuh"
#include "ops/attention/cuda/attention_cuda_group.cuh"

namespace ingot::cuda {

struct PromptGroup : GroupShape<DType::kBF16, PagedAttention::kDim> {
  static constexpr int kThreads = 2 * 128;
  static constexpr int kStage = 2 * kSlotBytes;  // of keys and values
  static constexpr int kRing = kQueryBytes, kResults = kRing + 2 * kStage;
  static constexpr int kItem = kResults + kTakers * kResultBytes;
  static constexpr int kBytes = kItem + static_cast<int>(sizeof(RowsItem));
};

// Keys from `key` on and their values, on their way into the stage; zeros behind the last.
__device__ inline void copy_stage(const AttentionArgs& a, const RowsItem& item, std::byte* stage, int key) {
  using S = PromptGroup;
  for (int i = static_cast<int>(threadIdx.x); i < S::kKeys * S::kPieces; i += S::kThreads) {
    const int row = i / S::kPieces, piece = i % S::kPieces;
    const bool there = key + row < item.keys_end;
    const int slot = slot_at(a, item.seq, there ? key + row : 0);
    // A row of the cache is permuted as a row of a panel is: both begin at multiples of eight.
    std::byte* to = stage + piece / 8 * S::kPanel + row * 128 + piece % 8 * 16;
    copy_async(to, a.kv.k_row(slot, item.kv_head) + piece * 16, there);
    copy_async(to + S::kSlotBytes, a.kv.v_row(slot, item.kv_head) + piece * 16, there);
  }
  commit_copies();
}

// kPingPong: the groups ask for products in turn, so that one weighs its scores while the other's are multiplied.
template <bool kPingPong>
__global__ void __launch_bounds__(PromptGroup::kThreads, 1) attend_two_groups(AttentionArgs a) {
#if INGOT_HAS_WGMMA
  using S = PromptGroup;
  let_next_begin();
  wait_for_inputs();
  std::byte* shared = shared_memory<std::byte>();
  RowsItem& item = *reinterpret_cast<RowsItem*>(shared + S::kItem);
  if (!find_tile<S>(a, item)) return;
  const int group = static_cast<int>(threadIdx.x) / 128, of = static_cast<int>(threadIdx.x) / 32 * 16;
  // Barrier 1 + g: it is the turn of group g. The first turn is the first group's.
  const auto my_turn = [&] {
    if constexpr (kPingPong) barrier_some(1 + group, S::kThreads);
  };
  const auto other_turn = [&] {
    if constexpr (kPingPong) barrier_some_arrive(2 - group, S::kThreads);
  };
  if (group == 0) copy_queries<S>(a, item, shared);
  copy_stage(a, item, shared + S::kRing, item.keys_begin);
  const MatrixPlace q = matrix_by_rows(shared + group * 64 * 128);
  GroupRows<S> rows(a, item, of);
  float s[S::kKeys / 2], factor[2];
  uint32_t p[S::kKeys / 16][4];
  if (group == 1) other_turn();
  int stage = 0;
#pragma unroll 1
  for (int key = item.keys_begin; key < item.keys_end; key += S::kKeys, stage ^= 1) {
    copies_done<0>();
    shared_writes_done();
    __syncthreads();
    const std::byte* k = shared + S::kRing + stage * S::kStage;
    if (key + S::kKeys < item.keys_end)
      copy_stage(a, item, shared + S::kRing + (stage ^ 1) * S::kStage, key + S::kKeys);
    my_turn();
    products_begin();
    start_scores<S>(s, q, matrix_by_rows(k));
    products_done<0>(s);
    other_turn();
    if (weigh_group<S>(a, rows, s, key, factor)) {
#pragma unroll
      for (int i = 0; i < S::kDim / 2; ++i) rows.out[i] *= factor[i / 2 % 2];
    }
    pack_weights<S>(p, s);
    my_turn();
    products_begin();
    start_values<S>(rows.out, p, matrix_by_columns(k + S::kSlotBytes, S::kPanel));
    products_done<0>(rows.out);
    other_turn();
  }
  if (group == 0) my_turn();  // the second group's last
  store_group<S>(a, item, rows, of, shared + S::kResults + of / 16 * S::kResultBytes);
#endif
}

template <bool kPingPong>
void attend_by_groups(const PromptAttention& op, const Ctx& ctx) {
  const int64_t tiles = tiles_of(op, ctx);
  if (tiles == 0) return;
  if (ctx.arch != 90) return attend_by_product(op, ctx);
  launch(ctx, attend_two_groups<kPingPong>,
         {dim3(op.kv_heads, tiles), dim3(PromptGroup::kThreads), PromptGroup::kBytes}, paged_args(op));
}

}  // namespace ingot::cuda
