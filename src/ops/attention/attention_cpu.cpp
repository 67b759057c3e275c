// A task is some rows of one seq with some or all heads of one KV head: its queries meet the keys block
// after block. Each block gives its own maximum, sum and weighted values, and is merged into the state of
// each query in order of position: so a later version may compute blocks in parallel without changing a bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "ops/attention/attention.h"
#include "ops/cpu_math.h"
#include "ops/kernels.h"

namespace ingot::cpu {
namespace {

constexpr int kBlock = Attention::kBlock;
constexpr int kQueries = 32;  // rows × heads of a task: enough to pay for widening a block of 16-bit keys

// How the heads and rows are dealt to tasks. No value depends on it.
struct Cut {
  int shared;      // heads of a KV head
  int heads;       // of a task
  int rows;        // of a task
  int head_parts;  // tasks that the heads of a KV head are split into
  int64_t n_tasks;

  int64_t row_parts(const Batch& batch, int seq) const {
    const size_t s = static_cast<size_t>(seq);
    return (batch.q_start[s + 1] - batch.q_start[s] + rows - 1) / rows;
  }
  void split(const Attention& op, const Batch& batch, int heads_per_task) {
    heads = heads_per_task;
    head_parts = (shared + heads - 1) / heads;
    n_tasks = 0;
    for (int s = 0; s < batch.n_seqs; ++s) n_tasks += row_parts(batch, s);
    n_tasks *= op.kv.kv_heads * head_parts;
  }
};

Cut cut_of(const Attention& op, const Batch& batch, int threads) {
  Cut cut{};
  cut.shared = op.heads / op.kv.kv_heads;
  const int heads = std::min(cut.shared, kQueries);
  cut.rows = std::max(1, kQueries / heads);
  cut.split(op, batch, heads);
  // A few seqs of one row, with few KV heads: one head for each task.
  if (cut.n_tasks < 4 * threads) cut.split(op, batch, 1);
  return cut;
}

struct Task {
  int seq = 0, kv_head = 0;
  int first_row = 0, rows = 0;    // of the batch
  int first_head = 0, heads = 0;  // of the model
  int queries() const { return rows * heads; }
};

Task task_of(const Attention& op, const Batch& batch, const Cut& cut, int64_t index) {
  Task task;
  const int per_rows = op.kv.kv_heads * cut.head_parts;
  int64_t part = index / per_rows;
  while (part >= cut.row_parts(batch, task.seq)) part -= cut.row_parts(batch, task.seq++);
  const size_t s = static_cast<size_t>(task.seq);
  task.first_row = batch.q_start[s] + static_cast<int>(part) * cut.rows;
  task.rows = std::min(cut.rows, batch.q_start[s + 1] - task.first_row);
  const int rest = static_cast<int>(index % per_rows);
  task.kv_head = rest / cut.head_parts;
  const int first = rest % cut.head_parts * cut.heads;
  task.first_head = task.kv_head * cut.shared + first;
  task.heads = std::min(cut.heads, cut.shared - first);
  return task;
}

// This thread's memory. Queries are numbered row · heads + head.
struct Scratch {
  float *k, *v;       // [kBlock, dim] widened
  float* scores;      // [kQueries, kBlock]
  float* acc;         // [kQueries, v_dim] the values so far, relative to `max`
  float *max, *sum;   // [kQueries] of the scores so far, relative to `max`
  float *keep, *add;  // [kQueries] factors of the state and of the block when they are merged

  static int64_t floats(const KvLayer& kv) {
    return kBlock * (int64_t{kv.k_dim} + kv.v_dim) + kQueries * (int64_t{kBlock} + kv.v_dim + 4);
  }
  Scratch(float* at, const KvLayer& kv) {
    const auto take = [&](int64_t n) { return std::exchange(at, at + n); };
    k = take(int64_t{kBlock} * kv.k_dim);
    v = take(int64_t{kBlock} * kv.v_dim);
    scores = take(int64_t{kQueries} * kBlock);
    acc = take(int64_t{kQueries} * kv.v_dim);
    max = take(kQueries);
    sum = take(kQueries);
    keep = take(kQueries);
    add = take(kQueries);
  }
};

// The positions [first, end) that a row sees.
struct Seen {
  int first, end;
  // Of a block, from its start; begin >= end when none.
  int begin_in(int block) const { return std::clamp(first - block * kBlock, 0, kBlock); }
  int end_in(int block) const { return std::clamp(end - block * kBlock, 0, kBlock); }
};

Seen seen_by(const Attention& op, const Batch& batch, int row) {
  const int position = batch.position[static_cast<size_t>(row)];
  return {op.window > 0 ? std::max(0, position - op.window + 1) : 0, position + 1};
}

// A pointer to `dim` floats of the cache: in place, or widened to `room`.
const float* open_row(const Kernels& kernel, const std::byte* base, DType dtype, int64_t at, int dim, float* room) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(base) + at;
  const uint16_t* from = reinterpret_cast<const uint16_t*>(base) + at;
  (dtype == DType::kF16 ? kernel.widen_f16 : kernel.widen_bf16)(from, room, dim);
  return room;
}

// Replaces the scores of row r's queries by weights, and merges their maximum and sum into the state.
void weigh_row(const Attention& op, const Kernels& kernel, const Task& task, int r, int begin, int end, Scratch& s) {
  for (int q = r * task.heads; q < (r + 1) * task.heads; ++q) {
    float* scores = s.scores + q * kBlock;
    std::fill(scores, scores + begin, -std::numeric_limits<float>::infinity());
    std::fill(scores + end, scores + kBlock, -std::numeric_limits<float>::infinity());
    const SoftmaxPart part = kernel.softmax_part(scores, kBlock, op.scale, op.softcap);
    const float max = std::max(s.max[q], part.max);
    s.keep[q] = exp_f32(s.max[q] - max);
    s.add[q] = exp_f32(part.max - max);
    s.sum[q] = s.sum[q] * s.keep[q] + part.sum * s.add[q];
    s.max[q] = max;
  }
}

void run_key_block(const Attention& op, const Batch& batch, const Task& task, const Seen* seen, int block,
                   const float* const* q, Scratch& s) {
  const Kernels& kernel = kernels();
  const KvLayer& kv = op.kv;
  int begin = kBlock, end = 0;
  for (int r = 0; r < task.rows; ++r) {
    if (seen[r].begin_in(block) >= seen[r].end_in(block)) continue;
    begin = std::min(begin, seen[r].begin_in(block));
    end = std::max(end, seen[r].end_in(block));
  }
  if (begin >= end) return;
  const float *k[kBlock], *v[kBlock];
  const int32_t* pages = batch.pages(kv.group, task.seq);
  // Rows of a page lie side by side: the divisions, 40 cycles each, are made once for each page.
  for (int i = begin; i < end;) {
    const int position = block * kBlock + i;
    const int place = position % kv.page_rows;
    const int stop = std::min(end, i + kv.page_rows - place);
    const int64_t slot = int64_t{pages[position / kv.page_rows]} * kv.page_rows + place;
    int64_t k_at = kv.k_at(slot, task.kv_head), v_at = kv.v_at(slot, task.kv_head);
    for (; i < stop; ++i, k_at += kv.k_dim, v_at += kv.v_dim) {
      k[i] = open_row(kernel, kv.k, kv.dtype, k_at, kv.k_dim, s.k + i * kv.k_dim);
      v[i] = open_row(kernel, kv.v, kv.dtype, v_at, kv.v_dim, s.v + i * kv.v_dim);
    }
  }
  kernel.dots(q, task.queries(), k + begin, end - begin, kv.k_dim, s.scores + begin, kBlock);
  for (int r = 0; r < task.rows;) {
    const int row_begin = seen[r].begin_in(block), row_end = seen[r].end_in(block);
    int next = r;  // the rows after r that see the same of this block go with it
    for (; next < task.rows && seen[next].begin_in(block) == row_begin && seen[next].end_in(block) == row_end; ++next)
      if (row_begin < row_end) weigh_row(op, kernel, task, next, row_begin, row_end, s);
    const int first = r * task.heads;
    if (row_begin < row_end)
      kernel.mix(s.scores + first * kBlock + row_begin, kBlock, (next - r) * task.heads, v + row_begin,
                 row_end - row_begin, kv.v_dim, s.keep + first, s.add + first, s.acc + int64_t{first} * kv.v_dim,
                 kv.v_dim);
    r = next;
  }
}

void run_task(const Attention& op, const Batch& batch, const Task& task, Scratch s) {
  const KvLayer& kv = op.kv;
  const float* q[kQueries];
  Seen seen[kQueries];
  int first = std::numeric_limits<int>::max(), end = 0;
  for (int r = 0; r < task.rows; ++r) {
    seen[r] = seen_by(op, batch, task.first_row + r);
    first = std::min(first, seen[r].first);
    end = std::max(end, seen[r].end);
    for (int h = 0; h < task.heads; ++h) {
      const int i = r * task.heads + h;
      q[i] = op.q.f32(task.first_row + r) + int64_t{task.first_head + h} * kv.k_dim;
      // A sink is a key without a value.
      s.max[i] = op.sinks ? reinterpret_cast<const float*>(op.sinks.data)[task.first_head + h]
                          : -std::numeric_limits<float>::infinity();
      s.sum[i] = op.sinks ? 1.0f : 0.0f;
    }
  }
  std::fill(s.acc, s.acc + int64_t{task.queries()} * kv.v_dim, 0.0f);
  for (int block = first / kBlock; block * kBlock < end; ++block) run_key_block(op, batch, task, seen, block, q, s);
  for (int i = 0; i < task.queries(); ++i) {
    const float* acc = s.acc + int64_t{i} * kv.v_dim;
    float* out = op.out.f32(task.first_row + i / task.heads) + int64_t{task.first_head + i % task.heads} * kv.v_dim;
    for (int d = 0; d < kv.v_dim; ++d) out[d] = acc[d] / s.sum[i];
  }
}

}  // namespace

void prepare(Attention& op, Prepare& p) {
  CHECK(op.kv.kv_heads > 0 && op.heads % op.kv.kv_heads == 0, "{} heads over {}", op.heads, op.kv.kv_heads);
  CHECK(op.q.cols == int64_t{op.heads} * op.kv.k_dim && op.out.cols == int64_t{op.heads} * op.kv.v_dim,
        "q has {} columns, out {}", op.q.cols, op.out.cols);
  kernels();  // a wrong INGOT_ISA is told at load
  p.need_scratch(Scratch::floats(op.kv) * static_cast<int64_t>(sizeof(float)));
}

void run(const Attention& op, Ctx& ctx) {
  const Cut cut = cut_of(op, ctx.batch, ctx.pool.threads());
  ctx.pool.run(cut.n_tasks, [&](int64_t i, int thread) {
    run_task(op, ctx.batch, task_of(op, ctx.batch, cut, i), Scratch(ctx.scratch_of<float>(thread), op.kv));
  });
}

}  // namespace ingot::cpu
