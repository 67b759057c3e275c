#include "graph/run.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "graph/plan.h"

namespace ingot {
namespace {

// A row of an embedding brings in up to 64 KiB of the file around it: 29 MB of the default model in the long run,
// against 3 to 6 MB where they are given back after so many. Reading the same 1024 rows again costs 1 to 2 ms.
constexpr int kTableRows = 1024;

// Asks for what the first linear from node n on reads of a file, so that it is there when its turn comes. Returns the
// linear's number.
size_t want_weights(const std::vector<Node>& nodes, size_t n) {
  for (; n < nodes.size(); ++n) {
    const auto* linear = std::get_if<Linear>(&nodes[n].op);
    if (linear == nullptr) continue;
    for (size_t p = 0; p < static_cast<size_t>(linear->n_parts); ++p) {
      const Weight& weight = linear->parts[p].weight;
      if (weight.mapped) want_pages(weight.data, weight.bytes());
    }
    break;
  }
  return n;
}

}  // namespace

Runner::Runner(Graph& graph, const RunOptions& options)
    : graph_(graph), options_(options), pool_(options.threads), packed_(options.short_cols) {
  if (options_.own_thread) pool_.pin_caller();
  plan(graph_, options_.limits);
  arena_ = Memory(graph_.arena_bytes);
  bind_arena(graph_, arena_.data());
  Prepare prepare{.limits = options_.limits, .threads = options_.threads, .pool = &pool_};
  if (options_.kernels == Kernels::kFast) prepare.packed = &packed_;
  size_t wanted = 0;
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    if (prepare.packed != nullptr && wanted <= n) wanted = want_weights(graph_.nodes, n + 1);
    std::visit([&](auto& op) { cpu::prepare(op, prepare); }, graph_.nodes[n].op);
  }
  for (const Node& node : graph_.nodes) {
    if (const auto* embedding = std::get_if<Embedding>(&node.op)) tables_.push_back(embedding->table);
  }
  // Sampling is a launch of its own after the head.
  if (const auto logits = graph_.outputs.find("logits"); logits != graph_.outputs.end()) {
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
  run(0, graph_.head_begin, batch);
  give_back_tables(batch.n_rows);
}

bool Runner::replaced(const std::byte* data) const {
  const auto is_it = [&](const Weight& weight) { return weight.data == data; };
  if (!packed_.has(data) || std::ranges::any_of(tables_, is_it)) return false;
  // A gated unit with one part that has no panels reads both as they are published.
  return std::ranges::none_of(graph_.nodes, [&](const Node& node) {
    const auto* linear = std::get_if<Linear>(&node.op);
    if (linear == nullptr || !linear->is_glu()) return false;
    const Linear::Part &gate = linear->parts[0], &up = linear->parts[1];
    return (is_it(gate.weight) && up.packed == nullptr) || (is_it(up.weight) && gate.packed == nullptr);
  });
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
  run(graph_.head_begin, graph_.nodes.size(), batch);
}

void Runner::run(size_t begin, size_t end, const Batch& batch) {
  using Clock = std::chrono::steady_clock;
  Ctx c = ctx(batch);
  for (size_t n = begin; n < end; ++n) {
    const auto start = node_seconds_.empty() ? Clock::time_point{} : Clock::now();
    if (options_.kernels == Kernels::kRef) {
      std::visit([&](auto& op) { ref::run(op, c); }, graph_.nodes[n].op);
    } else {
      std::visit([&](auto& op) { cpu::run(op, c); }, graph_.nodes[n].op);
    }
    if (!node_seconds_.empty()) node_seconds_[n] += std::chrono::duration<double>(Clock::now() - start).count();
  }
}

void Runner::profile(bool on) { node_seconds_.assign(on ? graph_.nodes.size() : 0, 0.0); }

}  // namespace ingot
