#include "cli/report/report_measure.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "app/device.h"
#include "cli/bench/bench_ladder.h"
#include "cli/bench/bench_limits.h"
#include "cli/bench/bench_ops.h"
#include "cli/report/model_steps.h"
#include "cli/report/report_machine.h"
#include "ladder/ladder.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void merge(JsonObject& into, const JsonObject& more) {
  for (const auto& [key, value] : more) into[key] = value;
}

JsonArray measure_ladders(const ReportRun& run, int gpu, JsonObject& machine, JsonArray& missing) {
  if (ladder::steps().empty()) {
    missing.push_back("The ladders: this build has none.");
    return {};
  }
  const JsonObject measured = bench_ladder({.names = {},
                                            .rivals = "tools/rivals.py",
                                            .device = gpu,
                                            .threads = run.model.open.engine.threads,
                                            .most_seconds = run.quick ? 8.0 : 90.0});
  for (const Json& text : measured.at("not_measured").as_array()) missing.push_back(text);
  const double copy = get_float(measured.at("limits").as_object(), "copy_gbs", 0);
  if (copy > 0) machine["measured_copy_gbs"] = copy;
  return measured.at("ladders").as_array();
}

}  // namespace

JsonObject measure_report(const ReportRun& run, const std::function<void(const std::string&)>& tell) {
  const auto start = Clock::now();
  const OpenOptions& open = run.model.open;
  const int gpu = choose_one_device(open.device);
  std::optional<GpuWatch> watch;
  if (gpu >= 0) watch.emplace(gpu);
  JsonArray missing;
  JsonObject report{{"quick", run.quick}, {"machine", machine_facts()}};
  JsonObject& machine = report["machine"].as_object();

  const OpsRun ops_run{.threads = open.engine.threads, .quiet = true, .most_seconds = run.quick ? 10.0 : 120.0};
  OpsReport ops = gpu >= 0 ? bench_gpu_ops(gpu, ops_run) : bench_cpu_ops(ops_run);
  merge(machine, ops.machine);
  if (ops.left_out != 0) {
    missing.push_back(ops.left_out > 0
                          ? Json(fmt::format("{} further cases of operators: their time was spent "
                                             "(ingot bench ops measures all).",
                                             ops.left_out))
                          : Json("Further operators: their time was spent (ingot bench ops measures all)."));
  }
  tell(fmt::format("{} cases of operators, {:.0f} s", ops.results.size(), seconds_since(start)));
  report["ops"] = std::move(ops.results);
  report["ladders"] = measure_ladders(run, gpu, machine, missing);
  tell(fmt::format("{} ladders, {:.0f} s", report["ladders"].as_array().size(), seconds_since(start)));

  if (run.model.model.empty() && run.model.shape.empty()) {
    missing.push_back("A model: none was named, and the default one is not in the cache (ingot pull default).");
  } else {
    report["model"] = measure_model(run.model, gpu, run.quick, missing);
    tell(fmt::format("the model, {:.0f} s", seconds_since(start)));
  }
  if (gpu >= 0) missing.push_back("The CPU: --device cpu reports on it.");
  if (watch) {
    const JsonObject facts = watch->finish();
    merge(machine, facts);
    if (facts.empty()) missing.push_back(Json(fmt::format("Clocks and power of the GPU: {}.", watch->why())));
  }
  report["not_measured"] = std::move(missing);
  report["seconds"] = seconds_since(start);
  return report;
}

}  // namespace ingot
