// The page of `ingot bench ops`.
#include <string_view>

#include "cli/bench/bench_ops.h"
#include "cli/bench/pages/chart_page.h"

namespace ingot {
namespace {

constexpr std::string_view kScript = R"html(const machine = data.machine, gpu = machine.gpu;
element(body, "h1", {}, "Operators");
element(body, "p", {}, gpu ? `${gpu}: reads ${round(machine.measured_read_gbs)} GB/s, bf16 ` +
  `${round(machine.measured_bf16_gflops / 1e3)} TFLOP/s` : `${machine.cpu}, ${machine.threads} threads, set ${machine.set}: ` +
  `reads ${round(machine.measured_read_gbs)} GB/s, int8 ${round(machine.measured_int8_gops)} GOP/s, float32 ` +
  `${round(machine.measured_f32_gflops)} and bf16 ${round(machine.measured_bf16_gflops)} GFLOP/s`);
element(body, "p", {}, "%: of the nearer limit, measured in the same run.");
for (const op of new Set(data.results.map(r => r.op))) {
  const box = element(body, "div", { class: "wide" });
  element(box, "h2", {}, op);
  const table = element(box, "table"), head = element(table, "tr");
  for (const name of ["shape", "µs", "GB/s", "GOP/s", "limit", "%", ""]) element(head, "th", {}, name);
  for (const r of data.results.filter(r => r.op === op)) {
    const row = element(table, "tr");
    for (const text of [r.shape, round(r.seconds * 1e6), round(r.gbs), round(r.gops), r.limit, round(r.percent_of_ceiling)])
      element(row, "td", {}, text);
    const cell = element(row, "td", { style: "width: 30%" });
    element(cell, "div", { style: "height: .6rem; border-radius: 2px; background: var(--a); width: " +
      `${Math.min(100, r.percent_of_ceiling).toFixed(1)}%` });
  }
}
)html";

}  // namespace

std::string ops_page(const OpsReport& report) {
  return chart_page("operators", {{"results", report.results}, {"machine", report.machine}}, kScript);
}

}  // namespace ingot
