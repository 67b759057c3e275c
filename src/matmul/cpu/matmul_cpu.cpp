#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "matmul/cpu/kernels.h"
#include "matmul/cpu/matmul.h"
#include "matmul/cpu/tasks.h"

namespace ingot::cpu {
namespace {

void add_bias(const float* bias, int64_t first, int64_t n, float* sums) {
  if (bias == nullptr) return;
  const float* b = bias + first;
  for (int64_t i = 0; i < n; ++i) sums[i] += b[i];
}

// The parts that tasks are made of: gate stands for both of a glu.
size_t task_parts(const Product& product) { return product.is_glu() ? 1 : static_cast<size_t>(product.n_parts); }

// Gate and up are packed both or not at all.
bool is_packed(const Product& product, size_t part) {
  return product.parts[part].packed != nullptr && (!product.is_glu() || product.parts[1].packed != nullptr);
}

TaskCut cut_of(const Product& product, size_t part, int64_t rows, int threads) {
  return is_packed(product, part) ? panels_cut(product, product.parts[part], rows, threads)
                                  : rows_cut(product, rows, threads);
}

}  // namespace

XKinds kinds_of(const Product& product) {
  const PanelKernels& k = *kernels().panels;
  XKinds kinds;
  for (size_t p = 0; p < static_cast<size_t>(product.n_parts); ++p) {
    kinds.outer = kinds.outer || product.parts[p].packed == nullptr;
    if (product.parts[p].packed == nullptr) continue;
    const PanelKind kind = product.parts[p].packed->kind;
    kinds.bf16 = kinds.bf16 || kind == PanelKind::kBF16;
    kinds.f16 = kinds.f16 || kind == PanelKind::kF16;
    kinds.coarse = kinds.coarse || k.coarse(kind);
    if (!is_quantized(kind) || k.coarse(kind)) continue;
    kinds.quantized = true;
    kinds.fields = std::max(kinds.fields, fields_of(*product.parts[p].packed, false));
    kinds.many_fields = std::max(kinds.many_fields, fields_of(*product.parts[p].packed, true));
  }
  return kinds;
}

void run_task(const Product& product, const TaskBlock& block, const TaskCut& cut, const XRow* x, int64_t rows,
              std::byte* scratch) {
  if (is_packed(product, block.part)) {
    run_panels(product, block, cut, x, rows, scratch);
  } else {
    run_rows(product, block, cut, x, rows, scratch);
  }
}

ProductTasks::ProductTasks(const Product& product, int64_t rows, int threads) {
  for (size_t p = 0; p < task_parts(product); ++p) {
    cuts[p] = cut_of(product, p, rows, threads);
    tasks[p] = (product.parts[p].weight->rows + cuts[p].block - 1) / cuts[p].block;
    total += tasks[p];
  }
}

TaskBlock ProductTasks::block(const Product& product, int64_t task) const {
  size_t p = 0;
  while (task >= tasks[p]) task -= tasks[p++];
  const int64_t first = task * cuts[p].block;
  return {p, first, std::min(cuts[p].block, product.parts[p].weight->rows - first)};
}

void finish_row(const Product& product, const TaskBlock& block, int64_t t, float* sums, float* up) {
  const ProductPart& part = product.parts[block.part];
  const int64_t row = product.out_row(t);
  float* out = part.out.f32(row) + block.first;
  add_bias(part.bias, block.first, block.n, sums);
  if (product.is_glu()) {
    add_bias(product.parts[1].bias, block.first, block.n, up);
    kernels().glu(product.glu, sums, up, out, block.n);
  } else if (product.residual) {
    const float* residual = product.residual.f32(row) + block.first;
    for (int64_t i = 0; i < block.n; ++i) out[i] = residual[i] + sums[i];
  } else {
    std::memcpy(out, sums, static_cast<size_t>(block.n) * sizeof(float));
  }
}

// As the loop over the tasks reads them: gate beside up, other parts one behind the other.
void pack(Product& product, PackedStore& packed, ThreadPool& pool) {
  const auto parts = std::span(product.parts, static_cast<size_t>(product.n_parts));
  if (product.is_glu()) {
    for (ProductPart& part : parts) part.packed = packed.pack(*part.weight, pool);
    return;
  }
  std::vector<Weight> weights;
  for (const ProductPart& part : parts) weights.push_back(*part.weight);
  const std::vector<const PackedWeight*> made = packed.pack(weights, pool);
  for (size_t i = 0; i < weights.size(); ++i) parts[i].packed = made[i];
}

ProductNeeds product_needs(const Product& product, int64_t rows, int threads) {
  ProductNeeds needs;
  for (size_t i = 0; i < task_parts(product); ++i) {
    const int64_t direct = is_packed(product, i) ? direct_rows(product, product.parts[i]) : rows;
    for (const int64_t n : {rows, std::min(rows, direct), std::min(rows, kFewRows)})
      needs.scratch = std::max(needs.scratch, cut_of(product, i, std::max<int64_t>(n, 1), threads).scratch);
  }
  for (const int64_t n : {rows, std::min(rows, kFewRows)})
    needs.shared = std::max(needs.shared, XRows::bytes(product, kinds_of(product), n));
  return needs;
}

void multiply(const Product& product, int64_t rows, ThreadPool& pool, const ProductMemory& memory, const Loop* then) {
  if (rows == 0) return;
  const ProductTasks tasks(product, rows, pool.threads());
  const XRows x(product, kinds_of(product), rows, memory.shared);
  const int64_t at_once = x.at_once();
  const auto make_rows = [&](int64_t i, int) {
    // One row leaves the memory idle until it is made; then each thread would wait for its first lines.
    for (int64_t t = 0; rows == 1 && t < pool.threads(); ++t) {
      const TaskBlock first = tasks.block(product, ThreadPool::share(tasks.total, t, pool.threads()).begin);
      if (is_packed(product, first.part)) fetch_panels(product, first);
    }
    x.make(i * at_once, std::min(at_once, rows - i * at_once));
  };
  const auto run_one = [&](int64_t task, int thread) {
    const TaskBlock block = tasks.block(product, task);
    std::byte* scratch = memory.scratch + thread * memory.scratch_bytes;
    run_task(product, block, tasks.cuts[block.part], x.rows(), rows, scratch);
  };
  const Loop input = loop((rows + at_once - 1) / at_once, make_rows), output = loop(tasks.total, run_one);
  if (then == nullptr) return pool.run_phases(input, output);
  pool.run_phases(input, output, *then);
}

// Bytes of the rows of x of all products that a region takes: they stay in the L2 caches of two cores.
static constexpr int64_t kEachBytes = 2 << 20;

ProductNeeds each_needs(std::span<const Product> products, int64_t rows, int threads) {
  const ProductNeeds alone = product_needs(products[0], rows, 1), shared = product_needs(products[0], rows, threads);
  const int64_t one = (shared.shared + 63) / 64 * 64, all = one * static_cast<int64_t>(products.size());
  return {std::max(alone.scratch, shared.scratch), std::max(one, std::min(kEachBytes, all))};
}

void multiply_each(std::span<const Product> products, int64_t rows, ThreadPool& pool, const ProductMemory& memory,
                   const Loop* then) {
  if (rows == 0) return;
  const XKinds kinds = kinds_of(products[0]);
  const auto n = static_cast<int64_t>(products.size());
  const int64_t x_bytes = (XRows::bytes(products[0], kinds, rows) + 63) / 64 * 64;
  const int64_t each = std::clamp<int64_t>(kEachBytes / x_bytes, 1, n);
  for (int64_t first = 0; first < n; first += each) {
    const int64_t count = std::min(each, n - first);
    // Many products are tasks enough as they are.
    const ProductTasks tasks(products[0], rows, count >= 4 * pool.threads() ? 1 : pool.threads());
    const auto x_of = [&](int64_t i) {
      return XRows(products[static_cast<size_t>(first + i)], kinds, rows, memory.shared + i * x_bytes);
    };
    const int64_t at_once = x_of(0).at_once(), groups = (rows + at_once - 1) / at_once;
    const auto make_rows = [&](int64_t i, int) {
      const int64_t t = i % groups * at_once;
      x_of(i / groups).make(t, std::min(at_once, rows - t));
    };
    const auto run_one = [&](int64_t i, int thread) {
      const Product& product = products[static_cast<size_t>(first + i / tasks.total)];
      const TaskBlock block = tasks.block(product, i % tasks.total);
      const auto* x = reinterpret_cast<const XRow*>(memory.shared + i / tasks.total * x_bytes);
      run_task(product, block, tasks.cuts[block.part], x, rows, memory.scratch + thread * memory.scratch_bytes);
    };
    const Loop input = loop(count * groups, make_rows), output = loop(count * tasks.total, run_one);
    if (then != nullptr && first + count == n) {
      pool.run_phases(input, output, *then);
    } else {
      pool.run_phases(input, output);
    }
  }
}

}  // namespace ingot::cpu
