// The heads as products (matmul/cpu/matmul.h) that one region takes together; the tails are its last loop.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "matmul/cpu/kernels.h"
#include "matmul/cpu/matmul.h"
#include "ops/head_linear/head_linear.h"

namespace ingot::cpu {

// Memory of x and out does not move, so they are made once.
struct HeadProducts {
  std::vector<Weight> weights;       // of each head
  std::vector<PackedWeight> packed;  // empty where the weight is read as it is published
  std::vector<Product> products;
};

namespace {

Matrix columns_of(const Tensor& t, int64_t first, int64_t cols) {
  Matrix m(t);
  m.data += first * static_cast<int64_t>(sizeof(float));
  m.cols = cols;
  return m;
}

std::shared_ptr<HeadProducts> make_products(const HeadLinear& op) {
  auto made = std::make_shared<HeadProducts>();
  const auto heads = static_cast<size_t>(op.heads);
  const int64_t k = op.weight.cols, n = op.outputs();
  made->weights.reserve(heads);
  made->packed.reserve(heads);
  for (int64_t h = 0; h < op.heads; ++h) {
    Weight& weight = made->weights.emplace_back(op.weight);
    weight.rows = n;
    weight.data += h * n * weight.row_bytes;
    if (weight.scale != nullptr) {
      CHECK(weight.scale_rows >= op.weight.rows || n % weight.scale_rows == 0, "heads of {} rows, scales of {}", n,
            weight.scale_rows);
      weight.scale += h * n / weight.scale_rows * weight.scale_stride;
    }
    Product product;
    product.input.x = columns_of(op.x, h * (k + op.tail), k);
    product.parts[0] = {.weight = &weight, .out = columns_of(op.out, h * (n + op.tail), n)};
    if (op.packed != nullptr) {
      PackedWeight& packed = made->packed.emplace_back(*op.packed);
      packed.rows = n;
      packed.data = op.packed->panel(h * n / kPanelRows);
      product.parts[0].packed = &packed;
    }
    check(product);
    made->products.push_back(product);
  }
  return made;
}

}  // namespace

void prepare(HeadLinear& op, Prepare& p) {
  kernels();  // a wrong INGOT_ISA is told at load
  CHECK(op.weight.rows % op.heads == 0 && op.x.cols == op.heads * (op.weight.cols + op.tail),
        "{} rows and {} columns for {} heads", op.weight.rows, op.x.cols, op.heads);
  // A head is whole panels, or all heads are read as they are published.
  if (p.packed != nullptr && op.outputs() % kPanelRows == 0) op.packed = p.packed->pack(op.weight, *p.pool);
  op.products = make_products(op);
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.x.rows);
  const ProductNeeds needs = each_needs(op.products->products, rows, p.threads);
  p.need_scratch(needs.scratch);
  p.need_shared(needs.shared);
}

void run(const HeadLinear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), k = op.weight.cols, n = op.outputs();
  const ProductMemory memory{.scratch = ctx.scratch, .scratch_bytes = ctx.scratch_bytes, .shared = ctx.shared};
  if (op.tail == 0) return multiply_each(op.products->products, rows, ctx.pool, memory);
  const auto copy_tails = [&](int64_t t, int) {
    for (int64_t h = 0; h < op.heads; ++h) {
      const float* from = op.x.f32(t) + h * (k + op.tail) + k;
      std::copy(from, from + op.tail, op.out.f32(t) + h * (n + op.tail) + n);
    }
  };
  const Loop then = loop(rows, copy_tails);
  multiply_each(op.products->products, rows, ctx.pool, memory, &then);
}

}  // namespace ingot::cpu
