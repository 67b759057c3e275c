// ingot bench ops [NAME…]: each operator alone, on the CPU or on the GPU that --device names.
#include "cli/bench/bench_ops.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "app/device.h"
#include "bench/machine.h"
#include "bench/op_cases.h"
#include "cli/bench/bench.h"
#include "cli/engine_options.h"
#include "cli/interrupt.h"
#include "files/atomic_file.h"
#include "files/json.h"
#include "matmul/cpu/kernels.h"

namespace ingot {
namespace {

JsonObject result_json(const OpCase& c, double seconds, const Ceilings& limits) {
  const double peak = c.by == Multiplies::kInt8  ? limits.int8_gops
                      : c.by == Multiplies::kF32 ? limits.f32_gflops
                                                 : limits.bf16_gflops;
  const double by_memory = c.bytes / 1e9 / limits.reads.most_gbs(), by_products = c.flops / 1e9 / peak;
  return {{"op", c.op},
          {"format", c.format.empty() ? Json(nullptr) : Json(c.format)},
          {"shape", c.shape},
          {"seconds", seconds},
          {"gbs", c.bytes / 1e9 / seconds},
          {"gops", c.flops / 1e9 / seconds},
          {"limit", by_memory >= by_products    ? "memory"
                    : c.by == Multiplies::kInt8 ? "int8"
                    : c.by == Multiplies::kF32  ? "f32"
                                                : "bf16"},
          {"percent_of_ceiling", 100 * std::max(by_memory, by_products) / seconds}};
}

void print_header(const Ceilings& limits, int threads) {
  fmt::print("{}, {} threads, set {}: {}, int8 {:.0f} GOP/s, float32 {:.0f} and bf16 {:.0f} GFLOP/s\n", cpu_name(),
             threads, cpu::kernels().name, reads_text(limits.reads), limits.int8_gops, limits.f32_gflops,
             limits.bf16_gflops);
  fmt::print("%: of the nearer limit; the memory's is {:.1f} GB/s\n", limits.reads.most_gbs());
  fmt::print("{:<14} {:<30} {:>11} {:>8} {:>8} {:>6}  {}\n", "op", "shape", "us", "GB/s", "GOP/s", "%", "of");
}

void print_result(const JsonObject& r) {
  fmt::print("{:<14} {:<30} {:11.1f} {:8.2f} {:8.1f} {:6.1f}  {}\n", std::string(r.at("op").as_string()),
             std::string(r.at("shape").as_string()), r.at("seconds").as_double() * 1e6, r.at("gbs").as_double(),
             r.at("gops").as_double(), r.at("percent_of_ceiling").as_double(), std::string(r.at("limit").as_string()));
}

// One case of each operator, then a second of each, and so on.
OpCases in_turns(OpCases cases) {
  std::map<std::string, int> seen;
  std::vector<std::pair<int, size_t>> order;
  for (size_t i = 0; i < cases.size(); ++i) order.emplace_back(seen[cases[i].op]++, i);
  std::ranges::sort(order);
  OpCases turned;
  for (const auto& [turn, i] : order) turned.push_back(std::move(cases[i]));
  return turned;
}

struct Options {
  std::vector<std::string> names;
  std::string html;
  OpenOptions open;  // of it the device and the threads count
  CommonOptions common;
};

int run_ops(const Options& options) {
  const bool json = options.common.json;
  std::optional<AtomicFile> page;  // whether it can be written is known before the work
  if (!options.html.empty()) page.emplace(options.html);
  const OpenOptions& open = options.open;
  const OpsRun run{.names = options.names, .threads = open.engine.threads, .quiet = json};
  const OpsReport report =
      cuda_index(open.device) >= 0 ? bench_gpu_ops(choose_one_device(open.device, open.ref), run) : bench_cpu_ops(run);
  if (page) {
    page->write(ops_page(report));
    page->commit();
  }
  if (json) {
    fmt::print("{}\n", to_json(JsonObject{{"results", report.results}, {"machine", report.machine}}));
  }
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->names, "Operators and formats, such as linear q4_0 (default: all)")->type_name("");
  app.add_option("--html", options->html, "Also write a page with charts")->type_name("FILE");
  for (const char* name : {"--threads", "--device", "--ref"}) add_engine_option(app, name, options->open);
  add_verbose_option(app, options->common);
  add_json_option(app, options->common);
  return [options] { return run_ops(*options); };
}

}  // namespace

OpsReport bench_cpu_ops(const OpsRun& run) {
  OpCases cases = op_cases(run.names);
  const InterruptGuard guard;
  if (run.most_seconds > 0) cases = in_turns(std::move(cases));
  ThreadPool pool(run.threads ? run.threads : available_cores());
  const Ceilings limits = measure_ceilings(pool);
  if (!run.quiet) print_header(limits, pool.threads());
  OpsReport report;
  const auto start = std::chrono::steady_clock::now();
  for (const OpCase& c : cases) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (run.most_seconds > 0 && seconds > run.most_seconds) break;
    report.results.push_back(result_json(c, measure_op(c.make(pool), throw_if_interrupted), limits));
    if (!run.quiet) print_result(report.results.back().as_object());
  }
  report.left_out = static_cast<int>(cases.size() - report.results.size());
  report.machine = {{"cpu", cpu_name()},
                    {"gpu", nullptr},
                    {"threads", pool.threads()},
                    {"set", cpu::kernels().name},
                    {"measured_read_gbs", limits.reads.most_gbs()},
                    {"measured_read_ahead_gbs", limits.reads.ahead_gbs},
                    {"measured_read_plain_gbs", limits.reads.plain_gbs},
                    {"measured_int8_gops", limits.int8_gops},
                    {"measured_f32_gflops", limits.f32_gflops},
                    {"measured_bf16_gflops", limits.bf16_gflops}};
  return report;
}

const Command kBenchOps = {"ops", "Each operator alone, against the limits of this machine",
                           "ingot bench ops linear q4_0\n  ingot bench ops linear --device cuda --html ops.html",
                           setup};

}  // namespace ingot
