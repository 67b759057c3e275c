// ingot bench ops --device cuda.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/device.h"
#include "bench/machine.h"
#include "cli/bench/bench_ops.h"
#include "cli/interrupt.h"
#include "files/json.h"

namespace ingot {
namespace {

// The ceiling is what the slower of the two, memory and products, would take at its measured most.
JsonObject gpu_result(const DeviceOpTime& t, const DeviceCeilings& most) {
  const double seconds = std::max(t.seconds, 1e-9);
  const double by_memory = most.read_gbs > 0 ? t.bytes / 1e9 / most.read_gbs : 0;
  const double by_products = most.bf16_gflops > 0 ? t.flops / 1e9 / most.bf16_gflops : 0;
  return {{"op", t.op},
          {"shape", t.shape},
          {"seconds", t.seconds},
          {"gbs", t.bytes / 1e9 / seconds},
          {"gops", t.flops / 1e9 / seconds},
          {"limit", by_memory >= by_products ? "memory" : "bf16"},
          {"percent_of_ceiling", 100 * std::max(by_memory, by_products) / seconds}};
}

void print_row(const JsonObject& r) {
  fmt::print("{:<14} {:<28} {:11.1f} {:8.0f} {:8.1f} {:6.1f}  {}\n", std::string(r.at("op").as_string()),
             std::string(r.at("shape").as_string()), r.at("seconds").as_double() * 1e6, r.at("gbs").as_double(),
             r.at("gops").as_double() / 1e3, r.at("percent_of_ceiling").as_double(),
             std::string(r.at("limit").as_string()));
  std::fflush(stdout);
}

}  // namespace

OpsReport bench_gpu_ops(int device, const OpsRun& run) {
  struct Enough {};
  const InterruptGuard guard;
  JsonArray results;
  JsonObject machine{{"cpu", cpu_name()}};
  DeviceCeilings most;
  DeviceOpsListener listener;
  const auto start = std::chrono::steady_clock::now();
  listener.begin = [&](const std::string& name, const DeviceCeilings& measured) {
    most = measured;
    machine["gpu"] = name;
    machine["measured_read_gbs"] = most.read_gbs;
    machine["measured_copy_gbs"] = most.copy_gbs;
    machine["measured_bf16_gflops"] = most.bf16_gflops;
    if (run.quiet) return;
    fmt::print("{}: reads {:.0f} GB/s, copies {:.0f} GB/s, bf16 {:.0f} TFLOP/s\n", name, most.read_gbs, most.copy_gbs,
               most.bf16_gflops / 1e3);
    fmt::print("{:<14} {:<28} {:>11} {:>8} {:>8} {:>6}  {}\n", "op", "shape", "us", "GB/s", "TFLOP/s", "%", "of");
  };
  listener.each = [&](const DeviceOpTime& t) {
    throw_if_interrupted();
    results.push_back(gpu_result(t, most));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (run.most_seconds > 0 && seconds > run.most_seconds) throw Enough();
    if (!run.quiet) print_row(results.back().as_object());
  };
  int left_out = 0;
  try {
    bench_device_ops(device, run.names, listener);
  } catch (const Enough&) {
    left_out = -1;
  }
  return {std::move(results), std::move(machine), left_out};
}

}  // namespace ingot
