// Several products as one region: the rows of all of them are made, then the tasks of all of them run.
#include <algorithm>
#include <memory>
#include <new>

#include "matmul/cpu/kernels.h"
#include "matmul/cpu/matmul.h"
#include "matmul/cpu/tasks.h"

namespace ingot::cpu {
namespace {

// A group while it runs.
struct Running {
  Running(const ProductGroup& g, XKinds kinds, int threads, std::byte* memory)
      : group(g), tasks(g.product, g.rows, threads), x(g.product, kinds, g.rows, memory) {}

  const ProductGroup& group;
  ProductTasks tasks;
  XRows x;
  int64_t first_piece = 0, first_task = 0;  // of all groups'

  int64_t pieces() const { return (group.rows + x.at_once() - 1) / x.at_once(); }
};

// The group that has the index, by the first of each.
template <class First>
const Running& at(std::span<const Running> all, int64_t index, const First& first) {
  return *(std::ranges::upper_bound(all, index, {}, first) - 1);
}

// bytes(n) <= row · n + once for the rows of one group.
struct RowBytes {
  int64_t row = 0, once = 0;
};

RowBytes row_bytes(const Product& product) {
  const XKinds kinds = kinds_of(product);
  const auto bytes = [&](int64_t n) { return whole_lines(XRows::bytes(product, kinds, n)); };
  // Beyond a tile they grow evenly, but for few rows and many apart; kFewRows is a multiple of no tile.
  constexpr int64_t kStep = 48;
  RowBytes most;
  for (const int64_t n : {kFewRows + 1, kFewRows + 1 + kStep})
    most.row = std::max(most.row, (bytes(n + kStep) - bytes(n) + kStep - 1) / kStep);
  for (int64_t n = 1; n <= kFewRows + 2 * kStep; ++n) most.once = std::max(most.once, bytes(n) - most.row * n);
  return most;
}

}  // namespace

ProductNeeds group_needs(std::span<const Product> products, int64_t most_groups, int64_t rows, int threads) {
  ProductNeeds needs;
  RowBytes most;
  const auto same = [](const Product& a, const Product& b) {
    bool alike = true;
    for (int i = 0; i < a.n_parts; ++i) {
      const PackedWeight *p = a.parts[i].packed, *q = b.parts[i].packed;
      alike &= (p == nullptr) == (q == nullptr) && (p == nullptr || p->kind == q->kind);
    }
    return alike;
  };
  for (size_t i = 0; i < products.size(); ++i) {
    if (i > 0 && same(products[i], products[i - 1])) continue;
    needs.scratch = std::max(needs.scratch, product_needs(products[i], rows, threads).scratch);
    const RowBytes own = row_bytes(products[i]);
    most.row = std::max(most.row, own.row);
    most.once = std::max(most.once, own.once);
  }
  const int64_t groups = std::min(most_groups, rows);
  needs.shared = whole_lines(groups * static_cast<int64_t>(sizeof(Running))) + rows * most.row + groups * most.once;
  return needs;
}

void multiply(std::span<const ProductGroup> groups, ThreadPool& pool, const ProductMemory& memory, const Loop* then) {
  if (groups.empty()) return;
  auto* first = reinterpret_cast<Running*>(memory.shared);
  std::byte* rows_at = memory.shared + whole_lines(static_cast<int64_t>(groups.size() * sizeof(Running)));
  int64_t pieces = 0, tasks = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const XKinds kinds = kinds_of(groups[i].product);
    Running* running = std::construct_at(first + i, groups[i], kinds, pool.threads(), rows_at);
    running->first_piece = pieces;
    running->first_task = tasks;
    pieces += running->pieces();
    tasks += running->tasks.total;
    rows_at += whole_lines(XRows::bytes(groups[i].product, kinds, groups[i].rows));
  }
  const std::span<const Running> all(first, groups.size());
  const auto make_rows = [&](int64_t i, int) {
    const Running& r = at(all, i, [](const Running& g) { return g.first_piece; });
    const int64_t t = (i - r.first_piece) * r.x.at_once();
    r.x.make(t, std::min(r.x.at_once(), r.group.rows - t));
  };
  const auto run_one = [&](int64_t task, int thread) {
    const Running& r = at(all, task, [](const Running& g) { return g.first_task; });
    const TaskBlock block = r.tasks.block(r.group.product, task - r.first_task);
    std::byte* scratch = memory.scratch + thread * memory.scratch_bytes;
    run_task(r.group.product, block, r.tasks.cuts[block.part], r.x.rows(), r.group.rows, scratch);
  };
  const Loop input = loop(pieces, make_rows), output = loop(tasks, run_one);
  if (then == nullptr) return pool.run_phases(input, output);
  pool.run_phases(input, output, *then);
}

}  // namespace ingot::cpu
