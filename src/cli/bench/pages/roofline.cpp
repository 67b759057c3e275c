#include "cli/bench/pages/roofline.h"

namespace ingot {
namespace {

constexpr std::string_view kParts = R"html(
// Both axes are logarithmic: operations for each byte, and operations a second.
function roofline(parent, results, machine) {
  const read = machine.measured_read_gbs, shown = results.filter(r => r.gbs > 0 && r.gops > 0);
  const roofs = [["int8", machine.measured_int8_gops], ["float32", machine.measured_f32_gflops],
    ["bf16", machine.measured_bf16_gflops]].filter(r => r[1] > 0).sort((a, b) => a[1] - b[1]);
  if (!shown.length || !(read > 0) || !roofs.length) return;
  const hues = [210, 25, 130, 275, 350, 60, 180, 305, 95, 240], ops = [...new Set(shown.map(r => r.op))];
  const color = op => `hsl(${hues[ops.indexOf(op) % hues.length]} 65% ${ops.indexOf(op) < hues.length ? 52 : 35}%)`;
  const figure = element(parent, "figure"), heading = element(figure, "h2", {}, "Roofline");
  for (const op of ops) {
    element(heading, "span", { class: "key", style: `background: ${color(op)}` });
    element(heading, "span", { style: "font-weight: 400" }, op);
  }
  const width = 960, height = 420, left = 64, right = 16, top = 14, bottom = 36, most = roofs[roofs.length - 1][1];
  const xs = shown.map(r => r.gops / r.gbs), ys = shown.map(r => r.gops);
  const x0 = Math.log10(Math.min(...xs) / 1.6), x1 = Math.log10(Math.max(...xs, most / read) * 4);
  const y0 = Math.log10(Math.min(...ys, read * 10 ** x0) / 1.3), y1 = Math.log10(Math.max(most, ...ys) * 1.6);
  const px = v => left + (width - left - right) * (Math.log10(v) - x0) / (x1 - x0);
  const py = v => height - bottom - (height - bottom - top) * (Math.log10(v) - y0) / (y1 - y0);
  const svg = element(figure, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Roofline" });
  for (let p = Math.ceil(y0); p <= y1; ++p) {
    element(svg, "line", { class: "grid", x1: left, x2: width - right, y1: py(10 ** p), y2: py(10 ** p) });
    element(svg, "text", { x: left - 6, y: py(10 ** p) + 4, "text-anchor": "end" }, short(10 ** p));
  }
  for (let p = Math.ceil(x0); p <= x1; ++p)
    element(svg, "text", { x: px(10 ** p), y: height - bottom + 16, "text-anchor": "middle" }, String(+(10 ** p).toPrecision(2)));
  element(svg, "text", { x: width - right, y: height - 3, "text-anchor": "end" }, "operations for each byte");
  element(svg, "text", { x: left, y: top - 2 }, "GOP/s");
  const turn = most / read;
  element(svg, "path", { class: "curve b", d: `M${px(10 ** x0)},${py(read * 10 ** x0)}L${px(turn)},${py(most)}` });
  element(svg, "text", { x: px(10 ** (x0 + 0.1)), y: py(read * 10 ** (x0 + 0.1)) - 10 }, `reads ${round(read)} GB/s`);
  let before = Infinity;
  for (const [name, gops] of roofs) {
    element(svg, "line", { class: "b", x1: px(gops / read), x2: width - right, y1: py(gops), y2: py(gops) });
    const y = Math.min(py(gops) - 4, before - 12);  // roofs that are the same have their names one above the other
    element(svg, "text", { x: width - right, y, "text-anchor": "end" }, `${name} ${round(gops)} GOP/s`);
    before = y;
  }
  for (const r of shown) {
    const dot = element(svg, "circle", { cx: px(r.gops / r.gbs), cy: py(r.gops), r: 3.5, fill: color(r.op), "fill-opacity": 0.8 });
    element(dot, "title", {}, `${r.op} ${r.shape}: ${round(r.gops)} GOP/s, ${round(r.gbs)} GB/s, ` +
      `${round(r.percent_of_ceiling)} % of ${r.limit}`);
  }
  const rest = results.length - shown.length;
  element(figure, "figcaption", {}, "A dot is a case; the nearer it is to the lines above it, the less is left." +
    (rest ? ` ${rest} cases without arithmetic are in the tables only.` : ""));
}
// A table for each operator: times, rates, and the percent of the nearer limit.
function operators(parent, results) {
  for (const op of new Set(results.map(r => r.op))) {
    const box = element(parent, "div", { class: "wide" });
    element(box, "h2", {}, op);
    const table = element(box, "table"), head = element(table, "tr");
    for (const name of ["shape", "µs", "GB/s", "GOP/s", "limit", "%", ""]) element(head, "th", {}, name);
    for (const r of results.filter(r => r.op === op)) {
      const row = element(table, "tr");
      for (const text of [r.shape, round(r.seconds * 1e6), round(r.gbs), round(r.gops), r.limit, round(r.percent_of_ceiling)])
        element(row, "td", {}, text);
      const cell = element(row, "td", { style: "width: 30%" });
      element(cell, "div", { style: "height: .6rem; border-radius: 2px; background: var(--a); width: " +
        `${Math.min(100, r.percent_of_ceiling).toFixed(1)}%` });
    }
  }
}
)html";

}  // namespace

std::string_view roofline_script() { return kParts; }

}  // namespace ingot
