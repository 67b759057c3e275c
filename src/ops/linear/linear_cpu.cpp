// Linear as a product (matmul/cpu/matmul.h); norms, rope and KV write of q, k and v are its last loop, over rows.
#include "cpu/rms_norm_row.h"
#include "matmul/cpu/kernels.h"
#include "matmul/cpu/matmul.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_product.h"

namespace ingot::cpu {
namespace {

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

}  // namespace

void prepare(Linear& op, Prepare& p) {
  kernels();  // a wrong INGOT_ISA is told at load
  Product product = product_of(op);
  check(product);
  if (p.packed != nullptr) {
    pack(product, *p.packed, *p.pool);
    for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) op.parts[i].packed = product.parts[i].packed;
  }
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.x.rows);
  const ProductNeeds needs = product_needs(product, rows, p.threads);
  p.need_scratch(needs.scratch);
  p.need_shared(needs.shared);
}

void run(const Linear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  const Product product = product_of(op);
  const ProductMemory memory{.scratch = ctx.scratch, .scratch_bytes = ctx.scratch_bytes, .shared = ctx.shared};
  if (!op.heads) return multiply(product, rows, ctx.pool, memory);
  const std::vector<int32_t>& slots = ctx.batch.groups[static_cast<size_t>(op.heads.rope.kv.group)].slot;
  const auto finish = [&](int64_t t, int) { finish_heads(op.heads, t, slots[static_cast<size_t>(t)]); };
  const Loop then = loop(rows, finish);
  multiply(product, rows, ctx.pool, memory, &then);
}

}  // namespace ingot::cpu
