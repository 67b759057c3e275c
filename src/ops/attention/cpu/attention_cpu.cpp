// An item's queries meet the keys block after block. Each block is merged into its split's result, each split into the
// total, in order of position, whether one thread took all splits of a unit or several did: the last of them to
// arrive merges, and no bit depends on it.
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "ops/attention/attention.h"
#include "ops/attention/cpu/attention_ahead.h"
#include "ops/attention/cpu/attention_kernels.h"
#include "ops/attention/cpu/attention_plan.h"
#include "ops/attention/cpu/attention_turn.h"

namespace ingot::cpu {
namespace {

constexpr int kBlock = Attention::kBlock;
constexpr float kNone = -std::numeric_limits<float>::infinity();

// Of a unit's queries, numbered row · heads + head: the values so far, relative to `max`.
struct State {
  float* max;  // [queries]
  float* sum;  // [queries]
  float* acc;  // [queries, v_dim]

  State(float* at, int64_t queries) : max(at), sum(at + queries), acc(at + 2 * queries) {}
  void clear(int64_t queries, int64_t v_dim) const {
    std::fill(max, max + queries, kNone);
    std::fill(sum, sum + queries * (1 + v_dim), 0.0f);
  }
};

// This thread's memory.
struct Scratch {
  float *k, *v;       // [kBlock, dim] widened; v: the groups of values in pairs that some query does not see
  float* scores;      // [kQueries, kSplit], of a block [kQueries, kBlock] with room behind
  float* pairs;       // in pairs: queries [kQueries, k_dim], then weights [kQueries, kSplit]
  float *keep, *add;  // [kQueries]
  float *part, *total;

  static int64_t floats(const Attention& op) {
    return kBlock * (int64_t{op.kv.q_dim()} + op.kv.v_dim) + kQueries * int64_t{Attention::kSplit} + pairs_floats(op) +
           2 * kQueries + 2 * part_floats(op, kQueries);
  }
  Scratch(float* at, const Attention& op) {
    const auto take = [&](int64_t n) { return std::exchange(at, at + n); };
    k = take(int64_t{kBlock} * op.kv.q_dim());
    v = take(int64_t{kBlock} * op.kv.v_dim);
    scores = take(int64_t{kQueries} * Attention::kSplit);
    pairs = take(pairs_floats(op));
    keep = take(kQueries);
    add = take(kQueries);
    part = take(part_floats(op, kQueries));
    total = take(part_floats(op, kQueries));
  }
  uint16_t* q_pairs() const { return reinterpret_cast<uint16_t*>(pairs); }
  uint16_t* weight_pairs(const Attention& op) const { return q_pairs() + int64_t{kQueries} * op.kv.k_dim; }

 private:
  // Whether the cache is in pairs is not known before it is bound.
  static int64_t pairs_floats(const Attention& op) {
    return op.kv.dtype == DType::kBF16 ? kQueries / 2 * int64_t{op.kv.k_dim + Attention::kSplit} : 0;
  }
};

// What the ops of a unit share.
struct Work {
  const Attention& op;
  const Batch& batch;
  const AttentionUnit& unit;
  const AttentionKernels& kernel;
  Scratch scratch;
  Ahead* const ahead;  // null: nothing is asked for
  const float* q[kQueries];
  Seen seen[kQueries];  // by each row

  Work(const Attention& o, const Batch& b, const AttentionUnit& u, const Scratch& s, Ahead* a)
      : op(o), batch(b), unit(u), kernel(attention_kernels()), scratch(s), ahead(a) {
    for (int r = 0; r < unit.rows; ++r) {
      seen[r] = seen_by(op, batch, unit.first_row + r);
      for (int h = 0; h < unit.heads; ++h)
        q[r * unit.heads + h] = op.q.f32(unit.first_row + r) + int64_t{unit.first_head + h} * op.kv.q_dim();
    }
    if (op.kv.pairs) kernel.bf16->pack_rows(q, unit.queries(), op.kv.k_dim, scratch.q_pairs());
  }
};

// What each query of a unit sees of the n keys from position `first` on, and what some query does: [low, high).
struct SeenBlock {
  int32_t begin[kQueries], end[kQueries];
  int low, high = 0;

  SeenBlock(const Work& w, int first, int n) : low(n) {
    for (int r = 0, i = 0; r < w.unit.rows; ++r) {
      const int from = std::clamp(w.seen[r].first - first, 0, n), to = std::clamp(w.seen[r].end - first, 0, n);
      if (from < to) {
        low = std::min(low, from);
        high = std::max(high, to);
      }
      for (int h = 0; h < w.unit.heads; ++h, ++i) {
        begin[i] = from;
        end[i] = to;
      }
    }
  }
  // In whole groups of keys.
  int from() const { return low / kKeyGroup * kKeyGroup; }
  int to() const { return (high + kKeyGroup - 1) / kKeyGroup * kKeyGroup; }
  SeenRanges ranges() const { return {begin, end}; }
};

// The keys and values of a block that some row sees: in place, or opened. Over a latent cache keys are made of it.
struct OpenBlock {
  DType dtype;
  const std::byte* groups[kBlock / kKeyGroup];
  const std::byte* values[kBlock];
  int64_t step = 0;  // from one value to the next; 0: they lie in several pages

  OpenBlock(const Work& w, int first, int begin, int end) {
    const KvLayer& kv = w.op.kv;
    if (kv.latent) {
      open_latent(w, first, begin, end);
      return;
    }
    const int32_t* pages = w.batch.pages(kv.group, w.unit.seq);
    const bool in_place = kv.dtype == DType::kF32 || w.unit.queries() <= w.kernel.direct_queries;
    const int64_t k_group = kv.k_bytes() * kKeyGroup, v_row = kv.v_bytes();
    dtype = in_place ? kv.dtype : DType::kF32;
    const int64_t row = in_place ? v_row : kv.v_dim * static_cast<int64_t>(sizeof(float));
    if (!in_place || (first + begin) / kv.page_rows == (first + end - 1) / kv.page_rows) step = row;
    for (int i = begin / kKeyGroup * kKeyGroup; i < end;) {
      const int position = first + i, place = position % kv.page_rows;
      const int stop = std::min(end, i + kv.page_rows - place);
      const int32_t page = pages[position / kv.page_rows];
      const std::byte* k = kv.k_page(page, w.unit.kv_head) + place * kv.k_bytes();
      const std::byte* v = kv.v_page(page, w.unit.kv_head) + place * kv.v_bytes();
      for (int j = i; j < stop; j += kKeyGroup, k += k_group) {
        float* room = w.scratch.k + int64_t{j} * kv.k_dim;
        if (!in_place) w.kernel.open_keys(kv.dtype, k, kv.k_dim, room);
        groups[j / kKeyGroup] = in_place ? k : reinterpret_cast<const std::byte*>(room);
      }
      const int from = std::max(i, begin);
      v += (from - i) * v_row;
      float* room = w.scratch.v + int64_t{from} * kv.v_dim;
      if (!in_place) w.kernel.open_values(kv.dtype, v, stop - from, kv.v_dim, room);
      const std::byte* rows = in_place ? v : reinterpret_cast<const std::byte*>(room);
      for (int j = from; j < stop; ++j, rows += row) values[j] = rows;
      i = stop;
    }
  }

 private:
  // As floats: the latent as values, and turned around as the first dimensions of the keys, a group after the other. A
  // group lies in one page.
  void open_latent(const Work& w, int first, int begin, int end) {
    const KvLayer& kv = w.op.kv;
    const int32_t* pages = w.batch.pages(kv.group, w.unit.seq);
    dtype = DType::kF32;
    step = kv.v_dim * static_cast<int64_t>(sizeof(float));
    for (int i = begin / kKeyGroup * kKeyGroup; i < end; i += kKeyGroup) {
      const int position = first + i, place = position % kv.page_rows;
      const int32_t page = pages[position / kv.page_rows];
      const int from = std::max(i, begin), stop = std::min(end, i + kKeyGroup);
      float* rows = w.scratch.v + int64_t{i} * kv.v_dim;
      const std::byte* v = kv.v_page(page, w.unit.kv_head) + (place + from - i) * kv.v_bytes();
      float* seen = rows + int64_t{from - i} * kv.v_dim;
      if (kv.dtype == DType::kF32) {
        std::memcpy(seen, v, static_cast<size_t>((stop - from) * step));
      } else {
        w.kernel.open_values(kv.dtype, v, stop - from, kv.v_dim, seen);
      }
      // What nobody sees may be anything; its scores are not looked at.
      std::fill(rows, seen, 0.0f);
      std::fill(rows + int64_t{stop - i} * kv.v_dim, rows + int64_t{kKeyGroup} * kv.v_dim, 0.0f);
      float* key = w.scratch.k + int64_t{i} * kv.q_dim();
      turn_group(rows, kv.v_dim, key);
      float* rotary = key + int64_t{kv.v_dim} * kKeyGroup;
      const std::byte* k = kv.k_page(page, w.unit.kv_head) + place * kv.k_bytes();
      if (kv.k_dtype() == DType::kF32) {
        std::memcpy(rotary, k, static_cast<size_t>(kKeyGroup * kv.k_bytes()));
      } else {
        w.kernel.open_keys(kv.k_dtype(), k, kv.k_dim, rotary);
      }
      groups[i / kKeyGroup] = reinterpret_cast<const std::byte*>(key);
      for (int j = from; j < stop; ++j)
        values[j] = reinterpret_cast<const std::byte*>(rows + int64_t{j - i} * kv.v_dim);
    }
  }
};

// Merges the block of keys from position `first` on into `state`.
void run_block(const Work& w, int first, const State& state) {
  const SeenBlock seen(w, first, kBlock);
  if (seen.low >= seen.high) return;
  const OpenBlock block(w, first, seen.low, seen.high);
  const KvLayer& kv = w.op.kv;
  const Scratch& s = w.scratch;
  const int64_t nq = w.unit.queries();
  const int from = seen.from(), to = seen.to();
  w.kernel.scores(block.dtype, w.q, nq, block.groups + from / kKeyGroup, (to - from) / kKeyGroup, kv.q_dim(),
                  s.scores + from, kBlock);
  w.kernel.weigh(s.scores, kBlock, nq, seen.ranges(), from, to, w.op.scale * kv.k_scale(w.unit.kv_head), w.op.softcap,
                 {state.max, state.sum, s.keep, s.add});
  w.kernel.mix(block.dtype, s.scores, kBlock, nq, seen.ranges(), block.values, block.step, kv.v_dim, s.keep, s.add,
               state.acc);
}

int64_t slot_of(const Work& w, int position) {
  const KvLayer& kv = w.op.kv;
  return int64_t{w.batch.pages(kv.group, w.unit.seq)[position / kv.page_rows]} * kv.page_rows + position % kv.page_rows;
}

// The groups of four values that meet the weights of keys [from, end): as they lie where all four are seen by some
// query, else with zeros in `room`.
struct ValueGroups {
  const std::byte* groups[Attention::kSplit / kValueGroup];
  int64_t n = 0;

  ValueGroups(const Work& w, int first, const SeenBlock& seen) {
    const KvLayer& kv = w.op.kv;
    const int64_t bytes = kValueGroup * kv.v_bytes();
    auto* room = reinterpret_cast<std::byte*>(w.scratch.v);
    const std::byte* at = nullptr;
    for (int i = seen.from(); i < seen.high; i += kValueGroup, at += bytes) {
      if (at == nullptr || (first + i) % kKeyGroup == 0) at = kv.v_group(slot_of(w, first + i), w.unit.kv_head);
      const bool whole = i >= seen.low && i + kValueGroup <= seen.high;
      groups[n++] = whole ? at : room;
      if (whole) continue;
      w.kernel.bf16->mask_values(at, kv.v_dim, seen.low - i, seen.high - i, room);
      room += bytes;
    }
  }
};

// As many groups of values that come later; those of now where there are no more. False where there is none at all.
bool next_values(const Work& w, const ValueGroups& now, const std::byte** next) {
  constexpr int kEach = kKeyGroup / kValueGroup;
  const std::byte* group = nullptr;
  for (int64_t i = 0; i < now.n; ++i) {
    if (i % kEach == 0) group = w.ahead->values.next();
    if (group == nullptr && i == 0) return false;
    next[i] = group != nullptr ? group + i % kEach * kValueGroup * w.op.kv.v_bytes() : now.groups[i];
  }
  return true;
}

// A whole split of a cache in pairs, into a state that is clear.
void run_split_pairs(const Work& w, int first, const State& state) {
  constexpr int kSplit = Attention::kSplit;
  const SeenBlock seen(w, first, kSplit);
  if (seen.low >= seen.high) return;
  const Bf16Products& bf16 = *w.kernel.bf16;
  const KvLayer& kv = w.op.kv;
  const Scratch& s = w.scratch;
  const int64_t nq = w.unit.queries();
  const int from = seen.from(), to = seen.to();
  for (int i = from; i < to; i += kKeyGroup) {
    const int64_t slot = slot_of(w, first + i);
    const std::byte* next = w.ahead != nullptr ? w.ahead->keys.next() : nullptr;
    bf16.scores(s.q_pairs(), nq, kv.k_dim, kv.k_group(slot, w.unit.kv_head),
                {.far = next, .near = kv.v_group(slot, w.unit.kv_head)}, s.scores + i, kSplit);
  }
  bf16.weigh(s.scores, kSplit, nq, seen.ranges(), from, to, w.op.scale, w.op.softcap, state.max, state.sum,
             s.weight_pairs(w.op));
  const ValueGroups values(w, first, seen);
  const std::byte* next[kSplit / kValueGroup];
  const bool asks = w.ahead != nullptr && next_values(w, values, next);
  bf16.mix(s.weight_pairs(w.op), nq, to - from, values.groups, asks ? next : nullptr, values.n, kv.v_dim, state.acc,
           kv.v_dim);
}

void run_split(const Work& w, int split, const State& state) {
  state.clear(w.unit.queries(), w.op.kv.v_dim);
  const int begin = split * Attention::kSplit;
  if (w.op.kv.pairs) return run_split_pairs(w, begin, state);
  for (int first = begin; first < begin + Attention::kSplit; first += kBlock) run_block(w, first, state);
}

void begin_total(const Work& w, const State& total) {
  total.clear(w.unit.queries(), w.op.kv.v_dim);
  if (!w.op.sinks) return;
  // A sink is a key without a value.
  const float* sinks = reinterpret_cast<const float*>(w.op.sinks.data) + w.unit.first_head;
  for (int i = 0; i < w.unit.queries(); ++i) {
    total.max[i] = sinks[i % w.unit.heads];
    total.sum[i] = 1;
  }
}

void merge(const Work& w, const State& part, const State& total) {
  w.kernel.merge(w.unit.queries(), part.max, part.sum, part.acc, w.op.kv.v_dim,
                 {total.max, total.sum, w.scratch.keep, w.scratch.add}, total.acc);
}

void write_out(const Work& w, const State& total) {
  const int64_t v_dim = w.op.kv.v_dim;
  const float scale = w.op.kv.v_scale(w.unit.kv_head);
  for (int i = 0; i < w.unit.queries(); ++i) {
    const float* acc = total.acc + i * v_dim;
    float* out = w.op.out.f32(w.unit.first_row + i / w.unit.heads) + (w.unit.first_head + i % w.unit.heads) * v_dim;
    for (int64_t d = 0; d < v_dim; ++d) out[d] = acc[d] / total.sum[i] * scale;
  }
}

// `parts` and `arrived` are the unit's own, where it has several items.
void run_item(const Work& w, const AttentionItem& item, float* parts, int32_t* arrived) {
  const int64_t nq = w.unit.queries(), floats = part_floats(w.op, nq);
  const State total(w.scratch.total, nq);
  if (parts == nullptr) {
    const State part(w.scratch.part, nq);
    begin_total(w, total);
    for (int split = item.first_split; split < item.end_split; ++split) {
      run_split(w, split, part);
      merge(w, part, total);
    }
    return write_out(w, total);
  }
  for (int split = item.first_split; split < item.end_split; ++split)
    run_split(w, split, State(parts + (split - w.unit.first_split) * floats, nq));
  if (std::atomic_ref<int32_t>(*arrived).fetch_add(1, std::memory_order_acq_rel) + 1 < w.unit.items) return;
  begin_total(w, total);
  for (int64_t i = 0; i < w.unit.splits(); ++i) merge(w, State(parts + i * floats, nq), total);
  write_out(w, total);
}

// Floats of the shared memory: for the splits of all rows of the largest step, but at most 32 MiB, more than one row
// of a model with 32 heads of 128 needs for 128 Ki positions. What finds no room is not cut.
int64_t parts_room(const Attention& op, const StepLimits& limits) {
  constexpr int64_t kMost = int64_t{8} << 20;
  const int64_t splits = (limits.context + Attention::kSplit - 1) / Attention::kSplit;
  return std::min(kMost, limits.rows * splits * part_floats(op, op.heads));
}

}  // namespace

void prepare(Attention& op, Prepare& p) {
  CHECK(op.kv.kv_heads > 0 && op.heads % op.kv.kv_heads == 0, "{} heads over {}", op.heads, op.kv.kv_heads);
  CHECK(op.q.cols == int64_t{op.heads} * op.kv.q_dim() && op.out.cols == int64_t{op.heads} * op.kv.v_dim,
        "q has {} columns, out {}", op.q.cols, op.out.cols);
  isa();  // a wrong INGOT_ISA is told at load
  op.parts_room = p.threads > 1 ? parts_room(op, p.limits) : 0;
  p.need_scratch(Scratch::floats(op) * static_cast<int64_t>(sizeof(float)));
  p.need_shared(op.parts_room * static_cast<int64_t>(sizeof(float)));
}

void run(const Attention& op, Ctx& ctx) {
  CHECK(!op.kv.pairs || attention_kernels().bf16 != nullptr, "{} multiplies no pairs", isa_name(isa()));
  const int threads = ctx.pool.threads();
  const AttentionPlan plan(op, ctx.batch, threads, op.parts_room);
  std::vector<int32_t> arrived(plan.units.size());
  std::vector<Ahead> ahead(static_cast<size_t>(threads), Ahead(op, ctx.batch, plan));
  const auto n = static_cast<int64_t>(plan.items.size());
  const auto body = [&](int64_t i, int thread) {
    const AttentionItem& item = plan.items[static_cast<size_t>(i)];
    const AttentionUnit& unit = plan.units[static_cast<size_t>(item.unit)];
    float* parts = unit.parts < 0 ? nullptr : reinterpret_cast<float*>(ctx.shared) + unit.parts;
    Ahead* asks = nullptr;
    if (op.kv.pairs && unit.queries() <= kFewQueries) {
      asks = &ahead[static_cast<size_t>(thread)];
      const int64_t own = n * (thread + 1) / threads;  // the end of what the pool gives this thread
      asks->begin(op.kv, i, i < own ? own : n);
    }
    run_item(Work(op, ctx.batch, unit, Scratch(ctx.scratch_of<float>(thread), op), asks), item, parts,
             &arrived[static_cast<size_t>(item.unit)]);
  };
  ctx.pool.run(n, body);
}

}  // namespace ingot::cpu
