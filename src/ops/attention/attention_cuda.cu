#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "ops/attention/attention_cuda.h"

namespace ingot::cuda {
namespace {

// Memory for the results of splits in batch-invariant mode, of the largest bucket; it sets the splits' length.
constexpr int64_t kInvariantBytes = 64 << 20;
constexpr int kMostInvariantSplits = 32;
// Packed rows up to which a seq's keys are split; beyond them there are tiles enough.
constexpr int kMostSplitRows = 64;

// For measurements, INGOT_ATT is a sum of: 1 no clusters; 2 one block a multiprocessor; 4 twice as many blocks as run
// at a time; 8 steps end to end wherever there are no clusters; 16 nothing is read before the kernel in front has
// ended.
int trial() {
  static const int value = [] {
    const char* text = std::getenv("INGOT_ATT");
    return text != nullptr ? std::atoi(text) : 0;
  }();
  return value;
}

int packed_rows(int dim, bool wide) { return wide ? wide_rows(dim) : kNarrowRows; }

// Blocks that a device runs at a time: two of a multiprocessor, where their registers and shared memory leave room.
int64_t resident_blocks(int multiprocessors, int dim, bool wide) {
  const int usual = dim <= 128 && !wide ? 2 : 1;
  return int64_t{multiprocessors} * ((trial() & 2) != 0 ? 1 : usual) * ((trial() & 4) != 0 ? 2 : 1);
}

bool by_copy_engine(const Ctx& ctx) { return ctx.arch >= 90 && roomy(ctx.arch); }

// Clusters of blocks that a device runs at a time. A cluster lies in one of the device's parts, which do not hold a
// multiple of its blocks: an H200 with 132 multiprocessors runs 15 where each has one block.
int64_t resident_clusters(const Ctx& ctx, int dim, bool wide) {
  if ((trial() & 1) != 0 || !by_copy_engine(ctx) || dim % 64 != 0) return 0;
  return ctx.multiprocessors / (kClusterBlocks + 1) *
         (resident_blocks(ctx.multiprocessors, dim, wide) / ctx.multiprocessors);
}

bool aligned(const Tensor& t) {
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.stride * dtype_bytes(t.dtype) % 16 == 0;
}

bool fast(const Attention& op) {
  const KvLayer& kv = op.kv;
  return (kv.dtype == DType::kBF16 || kv.dtype == DType::kF16) && kv.k_dim == kv.v_dim && fast_dim(kv.k_dim) &&
         kv.page_rows % kKeyGroup == 0 && kv.page_bytes % 16 == 0 && reinterpret_cast<uintptr_t>(kv.k) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(kv.v) % 16 == 0 && aligned(op.q) && aligned(op.out);
}

AttentionArgs args_of(const Attention& op, const Ctx& ctx) {
  constexpr float kLog2E = 1.4426950408889634f;
  AttentionArgs a;
  a.q = View(op.q);
  a.out = View(op.out);
  a.kv = KvPlace(op.kv);
  a.sinks = op.sinks ? reinterpret_cast<const float*>(op.sinks.data) : nullptr;
  a.kv_heads = op.kv.kv_heads;
  a.group = op.heads / op.kv.kv_heads;
  a.window = op.window;
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
  a.trial = trial();
  return a;
}

// Keys that the rows of one block may see at most.
int64_t most_keys(const Attention& op, const Ctx& ctx) {
  const int64_t context = int64_t{ctx.batch.pages_per_seq} * op.kv.page_rows;
  return op.window > 0 ? std::min<int64_t>(context, int64_t{op.window} + ctx.q_rows + kSplitStep) : context;
}

// How the keys are cut, and by how many blocks.
void choose_splits(const Attention& op, const Ctx& ctx, AttentionArgs& a, int64_t most_packed, bool wide) {
  const int dim = op.kv.k_dim, packed = packed_rows(dim, wide);
  a.tiles = static_cast<int>(ceil_div(most_packed, packed));
  const int64_t units = int64_t{a.seqs} * a.kv_heads * a.tiles;
  int64_t parts = 0, tickets = 0;
  if (a.split_keys != 0) {
    a.splits = static_cast<int>(ceil_div(most_keys(op, ctx), a.split_keys)) + (op.window > 0 ? 1 : 0);
    if (!a.fold) parts = units * a.splits, tickets = units;
    a.grid = dim3(static_cast<unsigned>(a.fold ? 1 : a.splits), static_cast<unsigned>(a.kv_heads * a.tiles),
                  static_cast<unsigned>(a.seqs));
  } else if (const int64_t clusters = resident_clusters(ctx, dim, wide); units <= clusters) {
    const int64_t of_unit = std::min(clusters / units, ceil_div(most_keys(op, ctx), kClusterKeys));
    parts = tickets = units * of_unit;
    a.clusters = true;
    a.grid = dim3(static_cast<unsigned>(units * of_unit * kClusterBlocks));
  } else {
    const int64_t blocks =
        std::min(resident_blocks(ctx.multiprocessors, dim, wide), units * ceil_div(most_keys(op, ctx), kSplitStep));
    parts = 2 * blocks, tickets = blocks;
    a.grid = dim3(static_cast<unsigned>(blocks));
  }
  CHECK(tickets <= kTickets && parts * part_floats(packed, dim) * 4 <= ctx.scratch_bytes, "no room for {} parts",
        parts);
}

void launch_split(const Attention& op, const Ctx& ctx, AttentionArgs a, int64_t most_packed, bool wide) {
  a.parts = reinterpret_cast<float*>(ctx.scratch);
  choose_splits(op, ctx, a, most_packed, wide);
  const bool bulk = by_copy_engine(ctx);
  if (op.kv.dtype == DType::kBF16) {
    attend_split_bf16(ctx, a, wide, bulk);
  } else {
    attend_split_f16(ctx, a, wide, bulk);
  }
}

void launch_rows(const Attention& op, const Ctx& ctx, const AttentionArgs& a) {
  const int64_t rows = ctx.rows(op.q);
  const int64_t tiles = rows * a.group / kRowsTile + std::min<int64_t>(a.seqs, rows);
  if (op.kv.dtype == DType::kBF16) {
    attend_rows_bf16(ctx, a, tiles);
  } else {
    attend_rows_f16(ctx, a, tiles);
  }
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
  const int dim = op.kv.k_dim;
  if (!fast_dim(dim)) return;
  if (p.batch_invariant) {
    const int64_t context = int64_t{p.limits.pages_per_seq()} * p.limits.page_rows;
    const int64_t of_split = int64_t{p.limits.seqs} * op.kv.kv_heads * part_floats(kNarrowRows, dim) * 4;
    const int64_t splits = std::clamp<int64_t>(kInvariantBytes / of_split, 1, kMostInvariantSplits);
    op.split_keys = static_cast<int>(
        std::max<int64_t>(4 * kSplitStep, ceil_div(ceil_div(context, splits), kSplitStep) * kSplitStep));
    p.need_scratch((ceil_div(context, op.split_keys) + 1) * of_split);
  } else {
    for (const bool wide : {false, true})
      p.need_scratch(2 * resident_blocks(p.multiprocessors, dim, wide) * part_floats(packed_rows(dim, wide), dim) * 4);
  }
}

void run(const Attention& op, Ctx& ctx) {
  CHECK(op.heads % op.kv.kv_heads == 0, "{} heads over {}", op.heads, op.kv.kv_heads);
  const int64_t rows = ctx.rows(op.q);
  if (rows == 0 || ctx.seqs == 0) return;
  AttentionArgs a = args_of(op, ctx);
  if (!fast(op)) return attend_any(ctx, a, rows);
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
