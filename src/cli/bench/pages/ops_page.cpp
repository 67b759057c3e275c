// The page of `ingot bench ops`.
#include <string_view>

#include "cli/bench/bench_ops.h"
#include "cli/bench/pages/chart_page.h"
#include "cli/bench/pages/roofline.h"

namespace ingot {
namespace {

constexpr std::string_view kScript = R"html(const machine = data.machine, gpu = machine.gpu;
element(body, "h1", {}, "Operators");
element(body, "p", {}, gpu ? `${gpu}: reads ${round(machine.measured_read_gbs)} GB/s, bf16 ` +
  `${round(machine.measured_bf16_gflops / 1e3)} TFLOP/s` : `${machine.cpu}, ${machine.threads} threads, set ${machine.set}: ` +
  `reads ${round(machine.measured_read_gbs)} GB/s, int8 ${round(machine.measured_int8_gops)} GOP/s, float32 ` +
  `${round(machine.measured_f32_gflops)} and bf16 ${round(machine.measured_bf16_gflops)} GFLOP/s`);
element(body, "p", {}, "%: of the nearer limit, measured in the same run.");
roofline(body, data.results, machine);
operators(body, data.results);
)html";

}  // namespace

std::string ops_page(const OpsReport& report) {
  return chart_page("operators", {{"results", report.results}, {"machine", report.machine}},
                    std::string(roofline_script()).append(kScript));
}

}  // namespace ingot
