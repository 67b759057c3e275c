// ingot bench ops [NAME…]: each operator alone, on the CPU or on the GPU that --device names.
#include "cli/bench/bench_ops.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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

void print_result(const JsonObject& r) {
  fmt::print("{:<14} {:<30} {:11.1f} {:8.2f} {:8.1f} {:6.1f}  {}\n", std::string(r.at("op").as_string()),
             std::string(r.at("shape").as_string()), r.at("seconds").as_double() * 1e6, r.at("gbs").as_double(),
             r.at("gops").as_double(), r.at("percent_of_ceiling").as_double(), std::string(r.at("limit").as_string()));
}

struct Options {
  std::vector<std::string> names;
  std::string html;
  OpenOptions open;  // of it the device and the threads count
  CommonOptions common;
};

OpsReport bench_cpu_ops(const std::vector<std::string>& names, int threads, bool json) {
  const OpCases cases = op_cases(names);
  const InterruptGuard guard;
  ThreadPool pool(threads ? threads : available_cores());
  const Ceilings limits = measure_ceilings(pool);
  if (!json) {
    fmt::print("{}, {} threads, set {}: {}, int8 {:.0f} GOP/s, float32 {:.0f} and bf16 {:.0f} GFLOP/s\n", cpu_name(),
               pool.threads(), cpu::kernels().name, reads_text(limits.reads), limits.int8_gops, limits.f32_gflops,
               limits.bf16_gflops);
    fmt::print("%: of the nearer limit; the memory's is {:.1f} GB/s\n", limits.reads.most_gbs());
    fmt::print("{:<14} {:<30} {:>11} {:>8} {:>8} {:>6}  {}\n", "op", "shape", "us", "GB/s", "GOP/s", "%", "of");
  }
  JsonArray results;
  for (const OpCase& c : cases) {
    const double seconds = measure_op(c.make(pool), [] {
      if (interrupted()) throw Interrupted();
    });
    results.push_back(result_json(c, seconds, limits));
    if (!json) print_result(results.back().as_object());
  }
  return {std::move(results),
          {{"cpu", cpu_name()},
           {"gpu", nullptr},
           {"threads", pool.threads()},
           {"set", cpu::kernels().name},
           {"measured_read_gbs", limits.reads.most_gbs()},
           {"measured_read_ahead_gbs", limits.reads.ahead_gbs},
           {"measured_read_plain_gbs", limits.reads.plain_gbs},
           {"measured_int8_gops", limits.int8_gops},
           {"measured_f32_gflops", limits.f32_gflops},
           {"measured_bf16_gflops", limits.bf16_gflops}}};
}

int run(const Options& options) {
  const bool json = options.common.json;
  std::optional<AtomicFile> page;  // whether it can be written is known before the work
  if (!options.html.empty()) page.emplace(options.html);
  const OpenOptions& open = options.open;
  const OpsReport report = cuda_index(open.device) >= 0
                               ? bench_gpu_ops(choose_device(open.device, open.ref), options.names, json)
                               : bench_cpu_ops(options.names, open.engine.threads, json);
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
  return [options] { return run(*options); };
}

}  // namespace

const Command kBenchOps = {"ops", "Each operator alone, against the limits of this machine",
                           "ingot bench ops linear q4_0\n  ingot bench ops linear --device cuda --html ops.html",
                           setup};

}  // namespace ingot
