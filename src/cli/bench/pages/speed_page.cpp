#include "cli/bench/pages/speed_page.h"

#include <string_view>

#include "cli/bench/pages/chart_page.h"

namespace ingot {
namespace {

constexpr std::string_view kScript = R"html(const machine = data.machine, rows = data.results;
element(body, "h1", {}, "Speed of a model");
element(body, "p", {}, `${data.model.architecture}, ${data.model.format}; ${machine.gpu || machine.cpu}, ` +
  `${machine.threads} threads, reads ${round(machine.measured_read_gbs)} GB/s`);
const table = element(element(body, "div", { class: "wide" }), "table"), head = element(table, "tr");
const columns = [["batch", "Batch"], ["prompt", "Prompt"], ["gen", "Answer"], ["prefill_tps", "Prefill, tokens/s"],
  ["decode_tps", "Decode, tokens/s"], ["ttft_ms", "First token, ms"], ["percent_of_bandwidth", "% of bandwidth"],
  ["percent_of_multiplier", "% of multiplier"]];
for (const [, name] of columns) element(head, "th", {}, name);
for (const r of rows) {
  const row = element(table, "tr");
  for (const [key] of columns) element(row, "td", {}, Number.isInteger(r[key]) ? r[key] : round(r[key]));
}
const charts = element(body, "div", { class: "charts" });
const by = key => [...rows].sort((a, b) => a.batch - b.batch).map(r => [r.batch, r[key]]);
if (rows.length > 1) for (const [key, title, y] of [["prefill_tps", "Prefill", "tokens/s"],
  ["decode_tps", "Decode", "tokens/s"], ["ttft_ms", "Time to the first token", "ms"]])
  chart(charts, title, "batch", y, [{ style: "a", points: by(key) }], { log: true });
)html";

}  // namespace

std::string speed_page(const JsonObject& report) { return chart_page("speed of a model", report, kScript); }

}  // namespace ingot
