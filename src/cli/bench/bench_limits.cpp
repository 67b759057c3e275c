#include "cli/bench/bench_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "bench/device.h"
#include "graph/traits.h"

namespace ingot {
namespace {

// Calls f with the products of a row and how the matrix is packed (kNone: not), for each matrix of the body.
template <class F>
void each_product(const Program& program, F&& f) {
  for (size_t n = 0; n < program.head_begin; ++n) {
    const double share = matrix_share(program.nodes[n].op, 1);
    each_matrix(program.nodes[n].op, [&](const Weight& weight, const PackedWeight* packed) {
      f(share * static_cast<double>(weight.rows) * static_cast<double>(weight.cols),
        packed != nullptr ? packed->kind : PanelKind::kNone);
    });
  }
}

}  // namespace

BenchLimits measure_limits(Engine& engine) {
  BenchLimits limits;
  limits.threads = engine.config().threads;
  limits.device = engine.device();
  engine.call([&](LocalEngine& local) {
    const Program& program = local.device().program();
    if (!limits.device.name.empty()) {
      const DeviceCeilings measured = measure_device(engine.config().device.cuda);
      limits.read_gbs = measured.read_gbs;
      limits.product_gflops = measured.bf16_gflops;
      if (measured.bf16_gflops <= 0) return;
      each_product(program, [&](double n, PanelKind) { limits.token_seconds += 2e-9 * n / measured.bf16_gflops; });
      return;
    }
    // Where ranks share the model the runner has one rank's threads, and one rank's part of each product.
    // On paper there is one rank, which has them all.
    const bool one = engine.config().on_paper != nullptr;
    const auto ranks = static_cast<double>(one ? 1 : std::max<size_t>(1, engine.model().ranks.size()));
    std::optional<ThreadPool> of_all;
    if (ranks > 1) of_all.emplace(engine.config().threads);
    ThreadPool& pool = of_all ? *of_all : local.runner().pool();
    const Ceilings measured = measure_ceilings(pool);
    limits.threads = pool.threads();
    limits.reads = measured.reads;
    limits.read_gbs = measured.reads.most_gbs();
    limits.int8_gops = measured.int8_gops;
    double most = 0;
    std::map<double, double> products;  // by the peak of their multiplier
    each_product(program, [&](double of_rank, PanelKind kind) {
      const double n = ranks * of_rank;
      const double peak = is_quantized(kind)         ? measured.int8_gops
                          : kind == PanelKind::kBF16 ? measured.bf16_gflops
                                                     : measured.f32_gflops;
      limits.token_seconds += 2e-9 * n / peak;
      products[peak] += n;
    });
    for (const auto& [peak, n] : products) {
      if (n > most) {
        most = n;
        limits.product_gflops = peak;
      }
    }
  });
  return limits;
}

WeightBytes weight_bytes(const Model& model, int rows) {
  WeightBytes bytes{.all = model.weights->taken_bytes(), .step = model.weights->taken_bytes()};
  std::set<std::string> whole;  // those that are read whole: a tied table among them
  for (const Node& node : model.graph.nodes) {
    const double left_out = 1 - matrix_share(node.op, rows);
    each_matrix(node.op, [&](const Weight& weight, const PackedWeight*) {
      whole.insert(weight.name);
      bytes.step -= static_cast<int64_t>(left_out * static_cast<double>(weight.bytes()));
    });
  }
  for (const Node& node : model.graph.nodes) {
    each_table(node.op, [&](const Weight& table) {
      if (!whole.contains(table.name)) bytes.step -= table.bytes();
    });
  }
  return bytes;
}

std::string limits_line(const BenchLimits& limits, const WeightBytes& weights) {
  const double megabytes = static_cast<double>(weights.all) / 1e6;
  if (limits.device.name.empty()) {
    return fmt::format("{}, {} threads, {}, int8 {:.0f} GOP/s; weights {:.1f} MB, of which a step reads {:.1f}",
                       cpu_name(), limits.threads, reads_text(limits.reads), limits.int8_gops, megabytes,
                       static_cast<double>(weights.step) / 1e6);
  }
  const double gib = 1.0 / (1 << 30);
  return fmt::format(
      "{}, reads {:.0f} GB/s, bf16 {:.0f} TFLOP/s; weights {:.1f} MB; {:.1f} of {:.1f} GiB free; {} graphs recorded in "
      "{:.2f} s",
      limits.device.name, limits.read_gbs, limits.product_gflops / 1e3, megabytes,
      static_cast<double>(limits.device.free_bytes) * gib, static_cast<double>(limits.device.total_bytes) * gib,
      limits.device.graphs, limits.device.graph_seconds);
}

JsonObject machine_json(const BenchLimits& limits) {
  JsonObject machine{{"cpu", cpu_name()},
                     {"gpu", nullptr},
                     {"threads", limits.threads},
                     {"measured_read_gbs", limits.read_gbs},
                     {"measured_int8_gops", limits.int8_gops},
                     {"product_gflops", limits.product_gflops}};
  if (limits.device.name.empty()) {
    machine["measured_read_ahead_gbs"] = limits.reads.ahead_gbs;
    machine["measured_read_plain_gbs"] = limits.reads.plain_gbs;
    return machine;
  }
  machine["gpu"] = limits.device.name;
  machine["gpu_total_bytes"] = limits.device.total_bytes;
  machine["gpu_free_bytes"] = limits.device.free_bytes;
  machine["gpu_weight_bytes"] = limits.device.weight_bytes;
  machine["gpu_step_bytes"] = limits.device.step_bytes;
  machine["gpu_graphs"] = limits.device.graphs;
  machine["gpu_graph_seconds"] = limits.device.graph_seconds;
  machine["measured_bf16_gflops"] = limits.product_gflops;
  return machine;
}

}  // namespace ingot
