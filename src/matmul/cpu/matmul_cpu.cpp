// One region of three loops: the rows of x are normed and quantized; then tasks, each a block of output rows of one
// part (of gate and up together for glu); then, for q, k and v, rows again.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "cpu/rms_norm_row.h"
#include "matmul/cpu/kernels.h"
#include "matmul/cpu/packed_store.h"
#include "matmul/cpu/tasks.h"

namespace ingot::cpu {
namespace {

void add_bias(const Weight& bias, int64_t first, int64_t n, float* sums) {
  if (!bias) return;
  const float* b = reinterpret_cast<const float*>(bias.data) + first;
  for (int64_t i = 0; i < n; ++i) sums[i] += b[i];
}

// The parts that tasks are made of: gate stands for both of a glu.
size_t task_parts(const Linear& op) { return op.is_glu() ? 1 : static_cast<size_t>(op.n_parts); }

// Gate and up are packed both or not at all.
bool is_packed(const Linear& op, size_t part) {
  return op.parts[part].packed != nullptr && (!op.is_glu() || op.parts[1].packed != nullptr);
}

XKinds kinds_of(const Linear& op) {
  const PanelKernels& k = *kernels().panels;
  XKinds kinds;
  for (size_t p = 0; p < static_cast<size_t>(op.n_parts); ++p) {
    if (op.parts[p].packed == nullptr) continue;
    const PanelKind kind = op.parts[p].packed->kind;
    kinds.bf16 = kinds.bf16 || kind == PanelKind::kBF16;
    kinds.f16 = kinds.f16 || kind == PanelKind::kF16;
    kinds.coarse = kinds.coarse || k.coarse(kind);
    if (!is_quantized(kind) || k.coarse(kind)) continue;
    kinds.quantized = true;
    kinds.fields = std::max(kinds.fields, fields_of(*op.parts[p].packed, false));
    kinds.many_fields = std::max(kinds.many_fields, fields_of(*op.parts[p].packed, true));
  }
  return kinds;
}

// Norms, rope and KV write of row t.
void finish_heads(const HeadsOutput& heads, int64_t t, int64_t slot) {
  const auto norm = [&](const HeadsOutput::Norm& n, const Tensor& x) {
    if (!n.weight) return;
    const float* weight = reinterpret_cast<const float*>(n.weight.data);
    for (int64_t c = 0; c < x.cols; c += n.width) rms_norm_row(x.f32(t) + c, weight, x.f32(t) + c, n.width, n.eps);
  };
  norm(heads.q_norm, heads.rope.q);
  norm(heads.k_norm, heads.rope.k);
  run_row(heads.rope, t, slot);
}

// As the loop over the tasks reads them: gate beside up, other parts one behind the other.
void pack(Linear& op, const Prepare& p) {
  std::vector<Weight> weights;
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) weights.push_back(op.parts[i].weight);
  if (op.is_glu()) {
    for (size_t i = 0; i < weights.size(); ++i) op.parts[i].packed = p.packed->pack(weights[i], *p.pool);
    return;
  }
  const std::vector<const PackedWeight*> packed = p.packed->pack(weights, *p.pool);
  for (size_t i = 0; i < weights.size(); ++i) op.parts[i].packed = packed[i];
}

LinearCut cut_of(const Linear& op, size_t part, int64_t rows, int threads) {
  return is_packed(op, part) ? panels_cut(op, op.parts[part], rows, threads) : rows_cut(op, threads);
}

}  // namespace

LinearTasks::LinearTasks(const Linear& op, int64_t rows, int threads) {
  for (size_t p = 0; p < task_parts(op); ++p) {
    cuts[p] = cut_of(op, p, rows, threads);
    tasks[p] = (op.parts[p].weight.rows + cuts[p].block - 1) / cuts[p].block;
    total += tasks[p];
  }
}

LinearBlock LinearTasks::block(const Linear& op, int64_t task) const {
  size_t p = 0;
  while (task >= tasks[p]) task -= tasks[p++];
  const int64_t first = task * cuts[p].block;
  return {p, first, std::min(cuts[p].block, op.parts[p].weight.rows - first)};
}

void finish_row(const Linear& op, const LinearBlock& block, int64_t t, float* sums, float* up) {
  const Linear::Part& part = op.parts[block.part];
  float* out = part.out.f32(t) + block.first;
  add_bias(part.bias, block.first, block.n, sums);
  if (op.is_glu()) {
    add_bias(op.parts[1].bias, block.first, block.n, up);
    kernels().glu(op.glu, sums, up, out, block.n);
  } else if (op.residual) {
    const float* residual = op.residual.f32(t) + block.first;
    for (int64_t i = 0; i < block.n; ++i) out[i] = residual[i] + sums[i];
  } else {
    std::memcpy(out, sums, static_cast<size_t>(block.n) * sizeof(float));
  }
}

void prepare(Linear& op, Prepare& p) {
  kernels();  // a wrong INGOT_ISA is told at load
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    const Weight& w = op.parts[i].weight;
    CHECK(w.cols == op.x.cols, "weight {} has {} columns, x {}", w.name, w.cols, op.x.cols);
    CHECK(i == 0 || !op.is_glu() || w.rows == op.parts[0].weight.rows, "weight {} has {} rows", w.name, w.rows);
  }
  if (p.packed != nullptr) pack(op, p);
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.x.rows);
  for (size_t i = 0; i < task_parts(op); ++i) {
    const int64_t direct = is_packed(op, i) ? direct_rows(op, op.parts[i]) : rows;
    for (const int64_t n : {rows, std::min(rows, direct), std::min(rows, kFewRows)})
      p.need_scratch(cut_of(op, i, std::max<int64_t>(n, 1), p.threads).scratch);
  }
  for (const int64_t n : {rows, std::min(rows, kFewRows)}) p.need_shared(XRows::bytes(op, kinds_of(op), n));
}

void run(const Linear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  const LinearTasks tasks(op, rows, ctx.pool.threads());
  const XRows x(op, kinds_of(op), rows, ctx.shared);
  const int64_t at_once = x.at_once();
  const auto make_rows = [&](int64_t i, int) {
    // One row leaves the memory idle until it is made; then each thread would wait for its first lines.
    for (int64_t t = 0; rows == 1 && t < ctx.pool.threads(); ++t) {
      const LinearBlock first = tasks.block(op, ThreadPool::share(tasks.total, t, ctx.pool.threads()).begin);
      if (is_packed(op, first.part)) fetch_panels(op, first);
    }
    x.make(i * at_once, std::min(at_once, rows - i * at_once));
  };
  const auto run_task = [&](int64_t task, int thread) {
    const LinearBlock block = tasks.block(op, task);
    const size_t p = block.part;
    std::byte* scratch = ctx.scratch_of<std::byte>(thread);
    if (is_packed(op, p)) {
      run_panels(op, block, tasks.cuts[p], x.rows(), rows, scratch);
    } else {
      run_rows(op, block, tasks.cuts[p], x.rows(), rows, scratch);
    }
  };
  const Loop input = loop((rows + at_once - 1) / at_once, make_rows);
  if (!op.heads) return ctx.pool.run_phases(input, loop(tasks.total, run_task));
  const std::vector<int32_t>& slots = ctx.batch.groups[static_cast<size_t>(op.heads.rope.kv.group)].slot;
  const auto finish = [&](int64_t t, int) { finish_heads(op.heads, t, slots[static_cast<size_t>(t)]); };
  ctx.pool.run_phases(input, loop(tasks.total, run_task), loop(rows, finish));
}

}  // namespace ingot::cpu
