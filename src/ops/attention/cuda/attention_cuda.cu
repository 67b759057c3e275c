#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/stream/stream_packing.h"
#include "ops/attention/cuda/attention_cuda.h"

namespace ingot::cuda {
namespace {

// Memory for the results of splits in batch-invariant mode, of the largest bucket; it sets the splits' length.
constexpr int64_t kInvariantBytes = 64 << 20;
constexpr int kMostInvariantSplits = 32;
// Packed rows up to which a seq's keys are split; beyond them there are tiles enough.
constexpr int kMostSplitRows = 64;

// Blocks that a device runs at a time.
int64_t resident_blocks(int multiprocessors, int dim) { return int64_t{multiprocessors} * (dim <= 128 ? 2 : 1); }
bool aligned(const Tensor& t) {
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.stride * dtype_bytes(t.dtype) % 16 == 0;
}

bool fast_sizes(const KvLayer& kv) {
  return kv.latent ? latent_dim(kv.v_dim, kv.k_dim) : kv.k_dim == kv.v_dim && fast_dim(kv.k_dim);
}

bool fast(const Attention& op) {
  const KvLayer& kv = op.kv;
  if (op.chunked || (kv.latent && (op.softcap > 0 || op.window > 0))) return false;
  return kv.dtype != DType::kF32 && fast_sizes(kv) && kv.page_rows % kKeyGroup == 0 && kv.page_bytes % 16 == 0 &&
         reinterpret_cast<uintptr_t>(kv.k) % 16 == 0 && reinterpret_cast<uintptr_t>(kv.v) % 16 == 0 && aligned(op.q) &&
         aligned(op.out);
}

AttentionArgs args_of(const Attention& op, const Ctx& ctx) {
  constexpr float kLog2E = 1.4426950408889634f;
  AttentionArgs a;
  a.q = View(op.q);
  a.out = View(op.out);
  a.kv = kv_place(op.kv);
  a.sinks = op.sinks ? reinterpret_cast<const float*>(op.sinks.data) : nullptr;
  a.kv_heads = op.kv.kv_heads;
  a.group = op.heads / op.kv.kv_heads;
  a.window = op.window;
  a.q_dim = op.kv.q_dim();
  a.latent = op.kv.latent;
  a.chunked = op.chunked;
  a.scale = op.scale;
  a.scale_log2 = op.scale * kLog2E;
  a.softcap = op.softcap;
  a.counts = ctx.batch.counts;
  a.q_start = ctx.batch.q_start;
  a.kv_len = ctx.batch.kv_len;
  a.position = ctx.batch.position;
  a.seq = ctx.batch.seq;
  a.page_table = ctx.batch.groups[op.kv.group].page_table;
  a.pages_per_seq = ctx.batch.pages_per_seq;
  a.seqs = ctx.seqs;
  a.tickets = ctx.tickets;
  return a;
}

struct FastKernels {
  void (*split)(const Ctx&, const AttentionArgs&, bool wide, bool bulk);
  void (*rows)(const Ctx&, const AttentionArgs&, int64_t tiles);
  void (*group)(const Ctx&, const AttentionArgs&, int64_t tiles);
};
FastKernels fast_kernels(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return {attend_split_bf16, attend_rows_bf16, attend_group_bf16};
    case DType::kF16:
      return {attend_split_f16, attend_rows_f16, attend_group_f16};
    case DType::kFp8:
      return {attend_split_fp8, attend_rows_fp8, attend_group_fp8};
    default:
      CHECK(dtype == DType::kQ8_0, "no fast attention over {}", dtype_name(dtype));
      return {attend_split_q8_0, attend_rows_q8_0, attend_group_q8_0};
  }
}

// Keys that the rows of one block may see at most.
int64_t most_keys(const Attention& op, const Ctx& ctx) {
  const int64_t context = int64_t{ctx.batch.pages_per_seq} * op.kv.page_rows;
  return op.window > 0 ? std::min<int64_t>(context, int64_t{op.window} + ctx.q_rows + kSplitStep) : context;
}

// How the keys are cut, and by how many blocks. Beside a block of a linear that streams its weights there is room for
// one of attention's, and one that finds its place early has its keys there when the linear ends. 8 seqs of 576 keys:
// 11.6 us with shares for two blocks of a multiprocessor, 10.4 with shares for one.
void choose_splits(const Attention& op, const Ctx& ctx, AttentionArgs& a, int packed) {
  const int64_t units = int64_t{a.seqs} * a.kv_heads * a.tiles,
                resident = (ctx.rows(op.q) <= kStreamRows ? ctx.multiprocessors
                                                          : resident_blocks(ctx.multiprocessors, op.kv.v_dim)) >>
                           a.cluster_bits;
  const auto fits = [&](int64_t parts) {
    return units <= kTickets && parts * part_floats(packed, op.kv.v_dim) * 4 <= ctx.scratch_bytes;
  };
  unsigned blocks = 1, seqs = static_cast<unsigned>(a.seqs);
  if (a.split_keys != 0) {
    a.splits = static_cast<int>(ceil_div(most_keys(op, ctx), a.split_keys)) + (op.window > 0 ? 1 : 0);
    CHECK(a.fold || fits(units * a.splits), "no room for {} splits of {}", a.splits, units);
    if (!a.fold) blocks = static_cast<unsigned>(a.splits);
  } else if (a.seqs == 1) {
    const auto splits = [&](int64_t blocks_at_once) {
      const int64_t most = ceil_div(most_keys(op, ctx), kSplitStep);
      const int64_t n = std::clamp<int64_t>(blocks_at_once / units, 1, most);
      return static_cast<int>(fits(units * n) ? n : 1);
    };
    a.few_splits = splits(resident);
    // Of 16-bit caches one block on a multiprocessor reads as fast, and the order of sums stays what it was.
    a.splits = a.few_splits;
    if (op.kv.dtype == DType::kFp8 || op.kv.dtype == DType::kQ8_0)
      a.splits = std::max(a.few_splits, splits(resident_blocks(ctx.multiprocessors, op.kv.v_dim) >> a.cluster_bits));
    blocks = static_cast<unsigned>(a.splits);
  } else {
    // A seq has a share more than its keys fill at most.
    const int64_t of_head = a.seqs + resident / (a.kv_heads * a.tiles);
    if (fits(of_head * a.kv_heads * a.tiles)) {
      a.resident = static_cast<int>(resident);
      blocks = static_cast<unsigned>(of_head);
      seqs = 1;
    }
  }
  a.grid = dim3(blocks << a.cluster_bits, static_cast<unsigned>(a.kv_heads * a.tiles), seqs);
}

void launch_split(const Attention& op, const Ctx& ctx, AttentionArgs a, int64_t most_packed, bool wide) {
  const int packed = wide ? wide_rows(op.kv.k_dim) : kNarrowRows;
  a.tiles = static_cast<int>(ceil_div(most_packed, packed));
  a.parts = reinterpret_cast<float*>(ctx.scratch);
  choose_splits(op, ctx, a, packed);
  const bool bulk = ctx.arch >= 90 && roomy(ctx.arch);
  fast_kernels(op.kv.dtype).split(ctx, a, wide, bulk);
}

// Clusters where all of them run at a time: of four blocks they gained nothing (32 seqs of 576 keys: 29 us, 25
// without).
int cluster_bits(const Ctx& ctx, int64_t units) { return ctx.arch >= 90 && units << 3 <= ctx.multiprocessors ? 3 : 0; }

// Packed rows of a block, of seqs with up to `most_packed`.
void launch_latent(const Attention& op, const Ctx& ctx, AttentionArgs a, int64_t most_packed, bool wide) {
  const int packed = wide ? kWideLatentRows : kNarrowRows;
  a.tiles = static_cast<int>(ceil_div(most_packed, packed));
  a.parts = reinterpret_cast<float*>(ctx.scratch);
  a.grid = dim3(1, static_cast<unsigned>(a.tiles), static_cast<unsigned>(a.seqs));
  if (!ctx.batch_invariant) {
    a.cluster_bits = wide ? 0 : cluster_bits(ctx, int64_t{a.seqs} * a.tiles);
    choose_splits(op, ctx, a, packed);
  }
  switch (op.kv.dtype) {
    case DType::kBF16:
      return attend_latent_bf16(ctx, a, wide);
    case DType::kF16:
      return attend_latent_f16(ctx, a, wide);
    case DType::kFp8:
      return attend_latent_fp8(ctx, a, wide);
    default:
      return attend_latent_q8_0(ctx, a, wide);
  }
}

// In batch-invariant mode the same tiles and one split for every row.
void run_latent(const Attention& op, const Ctx& ctx, AttentionArgs a) {
  const int64_t packed = int64_t{ctx.q_rows} * a.group;
  const bool wide = packed > kNarrowRows && roomy(ctx.arch) && !ctx.batch_invariant;
  if (!wide) return launch_latent(op, ctx, a, packed, false);
  // A prompt's rows among rows of decode: each by the tiles for its kind.
  if (ctx.seqs > 1 && a.group <= kNarrowRows && ctx.q_rows > 1) {
    a.most_packed = kNarrowRows;
    launch_latent(op, ctx, a, kNarrowRows, false);
    a.least_packed = kNarrowRows + 1;
    a.most_packed = 1 << 30;
  }
  launch_latent(op, ctx, a, packed, true);
}

void launch_rows(const Attention& op, const Ctx& ctx, const AttentionArgs& a) {
  const int64_t rows = ctx.rows(op.q);
  const int64_t tiles = rows * a.group / kRowsTile + std::min<int64_t>(a.seqs, rows);
  const FastKernels kernels = fast_kernels(op.kv.dtype);
  if (ctx.arch == 90 && group_dim(op.kv.k_dim)) return kernels.group(ctx, a, tiles);
  kernels.rows(ctx, a, tiles);
}

// A row's bits do not depend on what else is in the batch: the same tiles and splits of the keys for every row, by
// several blocks where a seq has few rows, one after another where it has many.
void run_invariant(const Attention& op, const Ctx& ctx, AttentionArgs a) {
  CHECK(op.split_keys > 0, "not prepared for batch-invariant mode");
  a.split_keys = op.split_keys;
  const int64_t packed = int64_t{ctx.q_rows} * a.group;
  if (a.group <= kNarrowRows && int64_t{a.seqs} * a.kv_heads <= kTickets) {
    a.most_packed = kNarrowRows;
    launch_split(op, ctx, a, std::min<int64_t>(packed, kNarrowRows), false);
    if (packed <= kNarrowRows) return;
    a.least_packed = kNarrowRows + 1;
    a.most_packed = 1 << 30;
  }
  a.fold = true;
  launch_split(op, ctx, a, packed, true);
}

}  // namespace

void prepare(Attention& op, Prepare& p) {
  const int dim = op.kv.v_dim;
  if (!fast_sizes(op.kv)) return;
  if (op.kv.latent) {
    if (p.batch_invariant) return;
    const int rows = op.heads <= kNarrowRows ? kNarrowRows : kWideLatentRows;
    const int64_t tiles = ceil_div(op.heads, rows), resident = resident_blocks(p.multiprocessors, dim);
    p.need_scratch(4 * (p.limits.seqs * tiles + resident) * part_floats(rows, dim));
    return;
  }
  if (p.batch_invariant) {
    const int64_t context = int64_t{p.limits.pages_per_seq()} * p.limits.page_rows;
    const int64_t of_split = int64_t{p.limits.seqs} * op.kv.kv_heads * part_floats(kNarrowRows, dim) * 4;
    const int64_t splits = std::clamp<int64_t>(kInvariantBytes / of_split, 1, kMostInvariantSplits);
    op.split_keys = static_cast<int>(
        std::max<int64_t>(4 * kSplitStep, ceil_div(ceil_div(context, splits), kSplitStep) * kSplitStep));
    p.need_scratch((ceil_div(context, op.split_keys) + 1) * of_split);
  } else {
    // Of decode with all seqs, and of one seq with the widest tiles. Buckets that would need more do without splits.
    const int64_t resident = resident_blocks(p.multiprocessors, dim);
    const int64_t narrow = (int64_t{p.limits.seqs} * op.kv.kv_heads + resident) * part_floats(kNarrowRows, dim);
    p.need_scratch(4 * std::max(narrow, resident * part_floats(wide_rows(dim), dim)));
  }
}

void run(const Attention& op, Ctx& ctx) {
  CHECK(op.heads % op.kv.kv_heads == 0, "{} heads over {}", op.heads, op.kv.kv_heads);
  const int64_t rows = ctx.rows(op.q);
  if (rows == 0 || ctx.seqs == 0) return;
  AttentionArgs a = args_of(op, ctx);
  if (!fast(op)) return attend_any(ctx, a, rows);
  if (op.kv.latent) return run_latent(op, ctx, a);
  if (ctx.batch_invariant) return run_invariant(op, ctx, a);
  const int64_t packed = int64_t{ctx.q_rows} * a.group;
  // The largest heads' tiles of prompts do not fit into every device.
  const bool few = packed <= kMostSplitRows || ctx.q_rows == 1 || (op.kv.k_dim > 128 && !roomy(ctx.arch));
  if (few) return launch_split(op, ctx, a, packed, packed > kNarrowRows);
  // A prompt's rows among rows of decode: each by the kernel for its kind.
  if (ctx.seqs > 1) {
    a.most_packed = kNarrowRows;
    launch_split(op, ctx, a, kNarrowRows, false);
    a.least_packed = kNarrowRows + 1;
    a.most_packed = 1 << 30;
  }
  launch_rows(op, ctx, a);
}

}  // namespace ingot::cuda
