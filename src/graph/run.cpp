#include "graph/run.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "graph/traits.h"

namespace ingot {
namespace {

// A row of an embedding brings in up to 64 KiB of the file around it: 29 MB of the default model in the long run,
// against 3 to 6 MB where they are given back after so many. Reading the same 1024 rows again costs 1 to 2 ms.
constexpr int kTableRows = 1024;

// Asks for the matrices of the first node from n on that has some, as far as they lie in a file and are not packed yet,
// so that they are there when its turn comes. Returns the node's number.
size_t want_weights(const std::vector<Node>& nodes, size_t n, const PackedStore& packed) {
  while (n < nodes.size() && !has_matrix(nodes[n].op)) ++n;
  if (n == nodes.size()) return n;
  each_matrix(nodes[n].op, [&](const Weight& weight, const PackedWeight*) {
    if (weight.mapped && !packed.has(weight.data)) want_pages(weight.data, weight.bytes());
  });
  return n;
}

}  // namespace

Runner::Runner(const Graph& graph, const RunOptions& options) : options_(options), pool_(options.threads) {
  if (options_.own_thread) pool_.pin_caller();
  program_ = compile(graph, {.limits = options_.limits, .kv = options_.kv});
  for (Node& node : program_.nodes) {
    std::visit(
        [&](auto& op) {
          if constexpr (requires { op.comm; }) op.comm = options_.comm;
        },
        node.op);
  }
  arena_ = Memory(program_.arena_bytes);
  bind_arena(program_, arena_.data());
  Prepare prepare{.limits = options_.limits, .threads = options_.threads, .pool = &pool_};
  if (options_.kernels == Kernels::kFast) prepare.packed = program_.packed->of(options_.short_cols).get();
  size_t wanted = 0;
  for (size_t n = 0; n < program_.nodes.size(); ++n) {
    if (prepare.packed != nullptr && wanted <= n) wanted = want_weights(program_.nodes, n + 1, *prepare.packed);
    std::visit([&](auto& op) { cpu::prepare(op, prepare); }, program_.nodes[n].op);
  }
  std::vector<int64_t> experts;
  for (const Node& node : program_.nodes) {
    expert_layers_.push_back(experts.size());
    if (const auto* router = std::get_if<RouterTopk>(&node.op)) experts.push_back(router->logits.cols);
  }
  experts_.begin(experts);
  for (const Node& node : program_.nodes) {
    each_table(node.op, [&](const Weight& table) { tables_.push_back(table); });
  }
  // Sampling is a launch of its own after the head.
  if (const auto logits = program_.outputs.find("logits"); logits != program_.outputs.end()) {
    Sample sample;
    sample.logits = logits->second;
    cpu::prepare(sample, prepare);
  }
  scratch_bytes_ = prepare.scratch_bytes;
  scratch_ = Memory(scratch_bytes_ * options_.threads);
  shared_ = Memory(prepare.shared_bytes);
}

Ctx Runner::ctx(const Batch& batch) {
  return Ctx{.batch = batch,
             .pool = pool_,
             .shape = {.tokens = batch.n_rows, .logits = batch.n_logits},
             .scratch = scratch_.data(),
             .scratch_bytes = scratch_bytes_,
             .shared = shared_.data()};
}

void Runner::run_body(const Batch& batch) {
  CHECK(batch.n_rows > 0 && batch.n_rows <= options_.limits.rows && batch.n_seqs <= options_.limits.seqs,
        "{} rows of {} seqs", batch.n_rows, batch.n_seqs);
  run(0, program_.head_begin, batch);
  give_back_tables(batch.n_rows);
}

bool Runner::replaced(const std::byte* data) const {
  bool packed = false, read = std::ranges::any_of(tables_, [&](const Weight&table) { return table.data == data; });
  for (const Node& node : program_.nodes) {
    each_matrix(node.op, [&](const Weight& weight, const PackedWeight* panels) {
      if (weight.data == data) (panels != nullptr ? packed : read) = true;
    });
  }
  return packed && !read;
}

void Runner::give_back_tables(int rows) {
  table_rows_ += rows;
  if (table_rows_ < kTableRows) return;
  table_rows_ = 0;
  for (const Weight& table : tables_) {
    if (table.mapped) give_back_pages(table.data, table.bytes());
  }
}

void Runner::run_head(const Batch& batch) {
  CHECK(batch.n_logits > 0 && batch.n_logits <= options_.limits.logits, "{} logit rows", batch.n_logits);
  run(program_.head_begin, program_.nodes.size(), batch);
}

void Runner::run(size_t begin, size_t end, const Batch& batch) {
  using Clock = std::chrono::steady_clock;
  Ctx c = ctx(batch);
  for (size_t n = begin; n < end; ++n) {
    const auto start = node_seconds_.empty() ? Clock::time_point{} : Clock::now();
    if (options_.kernels == Kernels::kRef) {
      std::visit([&](auto& op) { ref::run(op, c); }, program_.nodes[n].op);
    } else {
      std::visit([&](auto& op) { cpu::run(op, c); }, program_.nodes[n].op);
    }
    if (const auto* router = std::get_if<RouterTopk>(&program_.nodes[n].op)) {
      const Tensor& chosen = router->experts;
      experts_.add_layer(chosen.row<int32_t>(0), chosen.stride, c.rows(chosen), chosen.cols, router->logits.cols,
                         expert_layers_[n]);
    }
    if (!node_seconds_.empty()) node_seconds_[n] += std::chrono::duration<double>(Clock::now() - start).count();
  }
}

void Runner::profile(bool on) { node_seconds_.assign(on ? program_.nodes.size() : 0, 0.0); }

}  // namespace ingot
