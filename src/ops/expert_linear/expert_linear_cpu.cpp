// Experts as products that run together (matmul/cpu/matmul.h), one for each expert that some row meets. What follows,
// the sum over a row's experts, is the region's last loop, over rows.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "matmul/cpu/kernels.h"
#include "matmul/cpu/matmul.h"
#include "ops/expert_linear/expert_linear.h"

namespace ingot::cpu {
namespace {

int64_t round_up(int64_t n) { return (n + 63) / 64 * 64; }

// The matrix of places: a row of N, or K, for each.
Matrix by_place(const Tensor& t, int64_t used) {
  Matrix m(t);
  m.cols = t.cols / used;
  m.stride = m.cols;
  return m;
}

// Expert e's product, its rows not yet told.
Product product_of(const ExpertLinear& op, size_t e) {
  Product product;
  product.input.x = op.by_place() ? by_place(op.x, op.used()) : Matrix(op.x);
  product.n_parts = op.n_parts;
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    const ExpertLinear::Part& part = op.parts[i];
    const Weight& w = part.weights[e];
    const auto* bias = reinterpret_cast<const float*>(part.bias.data);
    product.parts[i] = {.weight = &w,
                        .packed = part.packed.empty() ? nullptr : part.packed[e],
                        .bias = bias != nullptr ? bias + static_cast<int64_t>(e) * w.rows : nullptr,
                        .out = by_place(op.places, op.used())};
  }
  product.glu = op.glu;
  return product;
}

// A run's arrays at the front of the memory that all threads share.
struct Places {
  Places(const ExpertLinear& op, int64_t rows, std::byte* memory) {
    const int64_t n = rows * op.used(), groups_most = std::min(n, op.count());
    const auto take = [&](int64_t bytes) {
      std::byte* at = memory + end;
      end += round_up(bytes);
      return at;
    };
    place = reinterpret_cast<int32_t*>(take(4 * n));
    row = reinterpret_cast<int32_t*>(take(4 * n));
    scale = reinterpret_cast<float*>(take(op.scale ? 4 * n : 0));
    start = reinterpret_cast<int32_t*>(take(4 * (op.count() + 1)));
    groups = reinterpret_cast<ProductGroup*>(take(groups_most * static_cast<int64_t>(sizeof(ProductGroup))));
  }

  int32_t* place;  // [T · k] places in order of their expert
  int32_t* row;    // [T · k] the row of x of each
  float* scale;    // [T · k] what it is multiplied by
  int32_t* start;  // [E + 1] the first of each expert
  ProductGroup* groups;
  int64_t end = 0;  // bytes of all
};

// Counts, adds up, deals: places of one expert stay in order.
void sort_places(const ExpertLinear& op, int64_t rows, const Places& to) {
  const int64_t used = op.used(), count = op.count();
  std::fill_n(to.start, count + 1, 0);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t j = 0; j < used; ++j) {
      const int32_t e = op.experts.row<int32_t>(t)[j];
      CHECK(e >= -1 && e < count, "expert {} of {}", e, count);
      if (e >= 0) ++to.start[e + 1];
    }
  for (int64_t e = 0; e < count; ++e) to.start[e + 1] += to.start[e];
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t j = 0; j < used; ++j) {
      const int32_t e = op.experts.row<int32_t>(t)[j];
      if (e < 0) continue;
      const int32_t at = to.start[e]++;
      to.place[at] = static_cast<int32_t>(t * used + j);
      to.row[at] = op.by_place() ? to.place[at] : static_cast<int32_t>(t);
      if (op.scale) to.scale[at] = op.weights.f32(t)[j];
    }
  // Each start has moved to the next.
  for (int64_t e = count; e > 0; --e) to.start[e] = to.start[e - 1];
  to.start[0] = 0;
}

void add_places(const ExpertLinear& op, int64_t t) {
  const int64_t n = op.rows_out();
  float* out = op.out.f32(t);
  bool first = true;
  for (int64_t j = 0; j < op.used(); ++j) {
    if (op.experts.row<int32_t>(t)[j] < 0) continue;
    const float* from = op.places.f32(t) + j * n;
    const float w = op.weights ? op.weights.f32(t)[j] : 1;
    if (first) {
      for (int64_t i = 0; i < n; ++i) out[i] = w * from[i];
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] += w * from[i];
    }
    first = false;
  }
  if (first) std::fill_n(out, n, 0.0f);
}

}  // namespace

void prepare(ExpertLinear& op, Prepare& p) {
  kernels();  // a wrong INGOT_ISA is told at load
  CHECK(op.places.stride == op.places.cols && (!op.by_place() || op.x.stride == op.x.cols), "places with gaps");
  for (size_t i = 0; p.packed != nullptr && i < static_cast<size_t>(op.n_parts); ++i)
    op.parts[i].packed = p.packed->pack(op.parts[i].weights, *p.pool);
  std::vector<Product> products;
  for (size_t e = 0; e < static_cast<size_t>(op.count()); ++e) {
    products.push_back(product_of(op, e));
    check(products.back());
  }
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.x.rows);
  // A scale makes room for the scaled row.
  const float some = 1;
  if (op.scale)
    for (Product& product : products) product.input.scale = &some;
  const ProductNeeds needs = group_needs(products, op.count(), rows * op.used(), p.threads);
  p.need_scratch(needs.scratch);
  p.need_shared(Places(op, rows, nullptr).end + needs.shared);
}

void run(const ExpertLinear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  const Places places(op, rows, ctx.shared);
  sort_places(op, rows, places);
  size_t n = 0;
  for (int64_t e = 0; e < op.count(); ++e) {
    const int32_t first = places.start[e], own = places.start[e + 1] - first;
    if (own == 0) continue;
    ProductGroup group{.product = product_of(op, static_cast<size_t>(e)), .rows = own};
    group.product.input.gather = places.row + first;
    group.product.scatter = places.place + first;
    if (op.scale) group.product.input.scale = places.scale + first;
    std::construct_at(places.groups + n++, group);
  }
  const ProductMemory memory{
      .scratch = ctx.scratch, .scratch_bytes = ctx.scratch_bytes, .shared = ctx.shared + places.end};
  const std::span<const ProductGroup> groups(places.groups, n);
  if (!op.out) return multiply(groups, ctx.pool, memory);
  const auto add = [&](int64_t t, int) { add_places(op, t); };
  if (n == 0) {  // all are other ranks': no products that the sums could follow
    for (int64_t t = 0; t < rows; ++t) add(t, 0);
    return;
  }
  const Loop then = loop(rows, add);
  multiply(groups, ctx.pool, memory, &then);
}

}  // namespace ingot::cpu
