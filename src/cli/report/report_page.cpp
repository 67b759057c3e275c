#include "cli/report/report_page.h"

#include <string_view>

#include "cli/bench/bench_profile.h"
#include "cli/bench/pages/chart_page.h"
#include "cli/bench/pages/roofline.h"
#include "cli/report/ladder_figure.h"

namespace ingot {
namespace {

constexpr std::string_view kScript = R"html(const machine = data.machine;
function section(title, text) {
  const box = element(body, "section", { style: "margin-top: 2rem; break-inside: avoid" });
  element(box, "h1", {}, title);
  if (text) element(box, "p", {}, text);
  return box;
}
function rows(parent, columns, list) {
  const table = element(element(parent, "div", { class: "wide" }), "table"), head = element(table, "tr");
  for (const [name] of columns) element(head, "th", {}, name);
  for (const item of list) {
    const row = element(table, "tr");
    for (const [, text, align] of columns) element(row, "td", align ? { style: "text-align: " + align } : {}, text(item));
  }
}
const known = pairs => pairs.filter(p => p[1] !== undefined && p[1] !== null && p[1] !== 0 && p[1] !== "");
const gib = v => v ? round(v / 2 ** 30) + " GiB" : 0, unit = (v, u) => v ? round(v) + " " + u : 0;

let box = section("Ingot: a report", `${data.date}, version ${data.version}${data.quick ? ", quick: few cases, few runs" : ""}`);
rows(box, [["machine", p => p[0]], ["", p => p[1]]], known([["CPU", machine.cpu],
  ["cores, threads", [machine.cores, machine.threads].filter(v => v).join(", ")], ["instruction set", machine.set],
  ["memory", gib(machine.memory_bytes)], ["system", machine.system], ["GPU", machine.gpu], ["driver", machine.driver],
  ["highest clock while measured", machine.gpu_clock_mhz && `${machine.gpu_clock_mhz} of ${machine.gpu_clock_most_mhz} MHz`],
  ["memory clock", unit(machine.gpu_memory_clock_mhz, "MHz")],
  ["highest power while measured", machine.gpu_power_w && `${round(machine.gpu_power_w)} of ${round(machine.gpu_power_limit_w)} W`],
  ["highest temperature", unit(machine.gpu_celsius, "°C")]]));
box = section("Limits", "Measured in this run; every percentage below is of one of these.");
rows(box, [["limit", p => p[0]], ["", p => p[1]]], known([["reads of memory", unit(machine.measured_read_gbs, "GB/s")],
  ["copies, bytes read and written", unit(machine.measured_copy_gbs, "GB/s")],
  ["int8 products", unit(machine.measured_int8_gops, "GOP/s")], ["float32 products", unit(machine.measured_f32_gflops, "GFLOP/s")],
  ["bf16 products", unit(machine.measured_bf16_gflops, "GFLOP/s")]]));

if (data.against) {
  const a = data.against;
  box = section("Before and after", `Before: ${a.date}, version ${a.version}, ${a.machine}.` + (a.same_machine ? "" :
    " That was another machine: the gains are not those of the code alone.") +
    ` Only before: ${a.only_before}; only now: ${a.only_after}. A gain above 1 is faster now.`);
  rows(box, [["figure", r => `${r.kind}: ${r.name}`], ["unit", r => r.unit], ["before", r => round(r.before)],
    ["after", r => round(r.after)], ["gain", r => r.gain.toFixed(2) + " ×"]], a.rows);
}

if (data.ladders.length) {
  box = section("Ladders", "Each operator from the plain kernel to the one that serves; dashed: the nearer limit.");
  for (const l of data.ladders) {
    const figure = element(box, "figure", { style: "margin-bottom: 1rem; break-inside: avoid" });
    element(figure, "img", { src: "data:image/svg+xml," + encodeURIComponent(l.svg), alt: `${l.op} ${l.shape}`,
      style: "width: 100%" });
    rows(figure, [["step", s => `${s.order} ${s.name}`], ["µs", s => round(s.seconds * 1e6)],
      [l.unit, s => round(s.figure)], ["% of " + l.limit, s => round(s.percent_of_limit)],
      ["gain", s => s.gain ? s.gain.toFixed(2) + " ×" : "–"], ["reason", s => s.reason, "left"]], l.steps);
    const there = l.rivals.filter(r => !r.absent), gone = l.rivals.filter(r => r.absent);
    if (there.length) element(figure, "p", {}, "Rivals: " + there.map(r => `${r.name} ${round(r.figure)} ${l.unit}`).join(", ") +
      (l.ratio_to_best_rival ? `; the last step beside the best of them: ${l.ratio_to_best_rival.toFixed(2)} ×` : ""));
    if (gone.length) element(figure, "p", {}, "Absent: " + gone.map(r => `${r.name} (${r.absent})`).join(", "));
  }
}

if (data.model) {
  const m = data.model;
  box = section("The model", `${m.name}: ${m.architecture}, ${m.format}`);
  element(box, "h2", {}, "What each part gains");
  rows(box, [["with", s => s.name], ["", s => s.what, "left"], ["batch", s => s.batch], ["prompt, answer", s => `${s.prompt}, ${s.gen}`],
    ["prefill, tok/s", s => round(s.prefill_tps)], ["decode, tok/s", s => round(s.decode_tps)],
    ["% of the best decode", s => round(100 * s.decode_tps / Math.max(...m.steps.filter(o => o.batch === s.batch).map(o => o.decode_tps)))]],
    m.steps);
  for (const one of m.profiles) step_profile(box, one, m.limits);
}

if (data.ops.length) {
  box = section("Operators", "Each alone; %: of the nearer limit.");
  roofline(box, data.ops, machine);
  operators(box, data.ops);
}

box = section("Not measured");
if (data.not_measured.length) for (const text of data.not_measured) element(box, "p", {}, text);
else element(box, "p", {}, "All was measured.");
)html";

}  // namespace

std::string report_page(const JsonObject& report, const JsonObject& against) {
  JsonObject data = report;
  for (const char* key : {"ops", "ladders", "not_measured"}) {
    if (!find_array(data, key)) data[key] = JsonArray{};
  }
  for (Json& item : data["ladders"].as_array()) {
    JsonObject& ladder = item.as_object();
    for (const char* key : {"steps", "rivals"}) {
      if (!find_array(ladder, key)) ladder[key] = JsonArray{};
    }
    ladder["svg"] = ladder_svg(ladder);
  }
  if (JsonObject* model = data.contains("model") ? data["model"].if_object() : nullptr) {
    for (const char* key : {"steps", "profiles"}) {
      if (!find_array(*model, key)) (*model)[key] = JsonArray{};
    }
    if (!find_object(*model, "limits")) (*model)["limits"] = JsonObject{};
  }
  if (!against.empty()) data["against"] = against;
  return chart_page("a report", data, std::string(roofline_script()).append(profile_script()).append(kScript));
}

}  // namespace ingot
