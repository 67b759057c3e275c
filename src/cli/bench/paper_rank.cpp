#include "cli/bench/paper_rank.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "base/thread_pool.h"
#include "comm/comm_local.h"
#include "graph/graph.h"

namespace ingot {
namespace {

struct Bytes {
  int64_t n = 0;
  bool experts = false;  // of experts: where ranks have whole ones, no two have the same
};
using PublishedBytes = std::map<const std::byte*, Bytes>;

// The weights of a graph by where each begins: of several views from there the longest.
PublishedBytes weights_of(const Graph& graph) {
  struct Visitor : TensorVisitor {
    PublishedBytes found;
    bool experts = false;
    void weight(Weight& w) {
      if (!w) return;
      Bytes& one = found[w.data];
      one.n = std::max(one.n, w.bytes());
      one.experts = experts;
    }
  } visitor;
  for (Node node : graph.nodes) {
    visitor.experts = std::holds_alternative<ExpertLinear>(node.op);
    each_tensor(node.op, visitor);
  }
  return visitor.found;
}

// Whether it lies in one of them.
bool inside(const PublishedBytes& weights, const std::byte* data, int64_t bytes) {
  auto after = weights.upper_bound(data);
  if (after == weights.begin()) return false;
  --after;
  return data + bytes <= after->first + after->second.n;
}

}  // namespace

CutBytes rank_bytes(const Model& model, int rank) {
  const PublishedBytes all = weights_of(model.graph), own = weights_of(model.ranks.at(static_cast<size_t>(rank)));
  CutBytes bytes;
  PublishedBytes whole;
  for (const auto& [data, one] : own) {
    const auto found = all.find(data);
    if (found != all.end() && found->second.n == one.n && !one.experts) whole[data] = one;
  }
  for (const auto& [data, one] : own) {
    if (whole.contains(data)) {
      bytes.whole += one.n;
    } else if (!inside(whole, data, one.n)) {  // a tied head: rows of the embedding, which is whole
      bytes.cut += one.n;
    }
  }
  return bytes;
}

int64_t model_bytes(const Model& model) {
  int64_t bytes = 0;
  for (const auto& [data, one] : weights_of(model.graph)) bytes += one.n;
  return bytes;
}

double measure_sync_us() {
  constexpr int kBatches = 5, kTimes = 200;  // 0.5 ms; where others use the cores it may be a second
  if (available_cores() < 2) return 0;
  std::vector<std::unique_ptr<Comm>> ends = make_local_comms(2, true);
  const auto meet = [](Comm& comm, int times) {
    float one = 0;
    for (int i = 0; i < times; ++i) comm.all_reduce({&one, 1});
  };
  std::thread other([&] { meet(*ends[1], (kBatches + 1) * kTimes); });
  meet(*ends[0], kTimes);
  std::array<double, kBatches> batches{};
  for (double& us : batches) {
    const auto begun = std::chrono::steady_clock::now();
    meet(*ends[0], kTimes);
    us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count() / kTimes;
  }
  other.join();
  std::ranges::sort(batches);
  return batches[kBatches / 2];
}

}  // namespace ingot
