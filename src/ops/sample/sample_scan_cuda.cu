// The kernels that read every logit of a row, each block one part of it: penalties, the largest, sums, plain draws.
#include "ops/sample/sample_kernels.cuh"

namespace ingot::cuda {
namespace {

struct Part {
  int begin, end;
  __device__ explicit Part(int vocabulary)
      : begin(static_cast<int>(blockIdx.x) * kPartLogits),
        end(begin + kPartLogits < vocabulary ? begin + kPartLogits : vocabulary) {}
};

// Calls f(x, i) for the part's elements.
template <class F>
__device__ void each_of_part(const float* row, const Part& part, bool wide, const F& f) {
  each_of_row(row + part.begin, part.end - part.begin, wide, [&](float x, int i) { f(x, part.begin + i); });
}

// Whether this block is the last of its row to come here; all that the others wrote before is seen then. Leaves the
// row's ticket at zero.
__device__ bool is_last_part(const SampleMemory& m, int64_t r) {
  __shared__ uint32_t arrived;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    arrived = atomicAdd(m.tickets + r, 1u);
  }
  __syncthreads();
  if (arrived + 1 != gridDim.x) return false;
  __threadfence();
  if (threadIdx.x == 0) m.tickets[r] = 0;
  return true;
}

// Steps 1 and 2. A logit that cannot be used becomes NaN, so that neither mask nor bias hides it.
__global__ void adjust(SampleMemory m) {
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.y;
  const SampleArgs a = m.args[r];
  if (a.adjusted < 0) return;
  const float* raw = m.raw(r);
  float* out = m.adjusted + a.adjusted * m.padded();
  const Part part(m.vocabulary);
  each_of_part(raw, part, m.wide, [&](float x, int i) {
    bool allowed = a.only_changed == 0;
    if (a.mask_words >= 0 && allowed) {
      const int word = i / 32;
      allowed = word < a.mask_words && (m.masks[a.mask_begin + word] >> (i % 32) & 1u) != 0;
    }
    out[i] = !(x < INFINITY) ? NAN : allowed ? x : -INFINITY;
  });
  __syncthreads();
  for (int c = a.changes_begin + static_cast<int>(threadIdx.x); c < a.changes_end; c += kPartThreads) {
    const TokenChange change = m.changes[c];
    if (change.token < part.begin || change.token >= part.end) continue;
    float x = raw[change.token];
    if (!(x < INFINITY)) continue;
    x = x > 0 ? __fdiv_rn(x, change.repetition) : __fmul_rn(x, change.repetition);
    x = __fadd_rn(__fsub_rn(__fsub_rn(x, change.minus), change.dry), change.plus);
    for (int more = c + 1; more < a.changes_end && m.changes[more].token < 0; ++more)
      x = __fadd_rn(x, m.changes[more].plus);
    out[change.token] = x;
  }
}

// By the last block of a row: the parts together. `all` has room for every part.
__device__ void combine_parts(const SampleMemory& m, int64_t r, Scanned* all) {
  for (int p = static_cast<int>(threadIdx.x); p < m.n_parts; p += kPartThreads) all[p] = m.parts[r * m.n_parts + p];
  __syncthreads();
  if (threadIdx.x != 0) return;
  Scanned row = all[0];
  for (int p = 1; p < m.n_parts; ++p) {
    row.best = all[p].best > row.best ? all[p].best : row.best;
    row.unusable |= all[p].unusable;
    row.least = fminf(row.least, all[p].least);
    row.largest = fmaxf(row.largest, all[p].largest);
  }
  const SampleArgs& a = m.args[r];
  const float best = key_value(row.best);
  if (!(best > -INFINITY)) row.unusable = 1;  // also where there is none
  if (row.unusable == 0 && a.n_top >= 0) {
    double sum = 0;
    for (int p = 0; p < m.n_parts; ++p)
      if (all[p].largest > -INFINITY)
        sum += all[p].log_sum * exp(static_cast<double>(all[p].largest) - static_cast<double>(row.largest));
    row.log_sum = static_cast<double>(row.largest) + log(sum);
  }
  m.scanned[r] = row;
  if (row.unusable != 0) {
    m.finish(r, -1);
  } else if (a.path == SampleArgs::Path::kGreedy) {
    m.finish(r, key_index(row.best));
  }
}

// The largest logit; whether all can be used; the sum that logprobs need. Greedy rows are done then.
__global__ void scan(SampleMemory m) {
  __shared__ uint64_t keys[32];
  __shared__ float floats[32];
  Scanned* all = shared_memory<Scanned>();
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.y;
  const SampleArgs& a = m.args[r];
  const Part part(m.vocabulary);
  Scanned found{0, 0, INFINITY, -INFINITY, 0};
  bool usable = true;
  float best = -INFINITY;
  int best_id = -1;
  each_of_part(m.row(r), part, m.row_wide(r), [&](float x, int i) {
    usable = usable && x < INFINITY;
    if (x > -INFINITY) found.least = fminf(found.least, x);
    if (x > best) {  // indices rise: the first of equal ones stays
      best = x;
      best_id = i;
    }
  });
  found.best = block_max_key(best_id < 0 ? 0 : order_key(best, best_id), keys);
  found.unusable = __syncthreads_or(usable ? 0 : 1);
  if (a.path == SampleArgs::Path::kTruncate) found.least = -block_max(-found.least, floats);
  if (a.n_top >= 0) {
    const float* raw = m.raw(r);
    each_of_part(raw, part, m.wide, [&](float x, int) { found.largest = fmaxf(found.largest, x); });
    found.largest = block_max(found.largest, floats);
    float sum = 0;
    each_of_part(raw, part, m.wide, [&](float x, int) { sum += expf(x - found.largest); });
    found.log_sum = block_sum(sum, floats);
  }
  if (threadIdx.x == 0) m.parts[r * m.n_parts + blockIdx.x] = found;
  if (is_last_part(m, r)) combine_parts(m, r, all);
}

// Step 5 where nothing is cut off.
__global__ void draw(SampleMemory m) {
  __shared__ double scores[32];
  __shared__ int32_t ids[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.y;
  const SampleArgs& a = m.args[r];
  if (a.path != SampleArgs::Path::kDraw || m.scanned[r].unusable != 0) return;
  const uint64_t best = m.scanned[r].best;
  const float largest = key_value(best);
  Drawer drawer(a, largest);
  drawer.begin(largest, key_index(best));
  each_of_part(m.row(r), Part(m.vocabulary), m.row_wide(r), [&](float x, int i) { drawer.consider(x, i); });
  block_best(drawer, scores, ids);
  if (threadIdx.x == 0) m.drawn[r * m.n_parts + blockIdx.x] = {drawer.score, drawer.token};
  if (!is_last_part(m, r) || threadIdx.x != 0) return;
  for (int p = 0; p < m.n_parts; ++p) {
    const Drawn other = m.drawn[r * m.n_parts + p];
    drawer.take(other.score, other.token);
  }
  m.finish(r, drawer.token);
}

Launch part_shape(const SampleMemory& m, int64_t rows) {
  return {dim3(static_cast<unsigned>(m.n_parts), static_cast<unsigned>(rows)), dim3(kPartThreads)};
}

}  // namespace

void launch_adjust(const Ctx& ctx, const SampleMemory& m, int64_t rows) { launch(ctx, adjust, part_shape(m, rows), m); }

void launch_scan(const Ctx& ctx, const SampleMemory& m, int64_t rows) {
  Launch shape = part_shape(m, rows);
  shape.shared = m.n_parts * static_cast<int64_t>(sizeof(Scanned));
  launch(ctx, scan, shape, m);
}

void launch_draw(const Ctx& ctx, const SampleMemory& m, int64_t rows) { launch(ctx, draw, part_shape(m, rows), m); }

}  // namespace ingot::cuda
