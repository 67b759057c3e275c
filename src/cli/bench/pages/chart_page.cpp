#include "cli/bench/pages/chart_page.h"

namespace ingot {
namespace {

constexpr std::string_view kHead = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Ingot: )html";

constexpr std::string_view kStyle = R"html(</title>
<style>
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #626b76; --line: #d9dee3; --card: #f7f8fa;
  --a: #2563c9; --b: #d0661b; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171a; --text: #e6e9ec; --soft: #98a2ad; --line: #343b42; --card: #1b1f23; --a: #6ea8ff; --b: #f2a267; }
}
body { margin: 2rem auto; padding: 0 1rem; max-width: 1080px; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: 0; }
h2 { font-size: 1rem; margin: 0 0 .4rem; }
p { margin: .3rem 0; color: var(--soft); overflow-wrap: anywhere; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 500; }
.wide { overflow-x: auto; margin: 1.2rem 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; padding: .8rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
svg { display: block; width: 100%; height: auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--soft); }
.grid { stroke: var(--line); }
.a { stroke: var(--a); } .b { stroke: var(--b); }
.curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.mark { stroke: var(--soft); stroke-dasharray: 3 3; }
.key { display: inline-block; width: .8rem; height: .2rem; margin: 0 .35rem .2rem .9rem; }
figcaption { color: var(--soft); font-size: .85rem; min-height: 1.4em; }
</style>
</head>
<body>
<script type="application/json" id="data">)html";

constexpr std::string_view kScript = R"html(</script>
<script>
const data = JSON.parse(document.getElementById("data").textContent);
const body = document.body;
const W = 460, H = 230, L = 46, R = 10, T = 8, B = 30;
const round = v => typeof v !== "number" || !isFinite(v) ? "–" : v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
const short = v => v >= 1e6 ? v / 1e6 + "M" : v >= 1e4 ? v / 1e3 + "k" : String(+v.toPrecision(6));

function element(parent, name, attributes, text) {
  const svg = ["svg", "path", "line", "text", "rect", "circle", "title"].includes(name);
  const node = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const key in attributes || {}) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
}
// The namespace is asked of an element that the parser made.
const SVG = (() => { const t = document.createElement("template"); t.innerHTML = "<svg></svg>";
  return t.content.firstChild.namespaceURI; })();

function steps(high, n) {
  const raw = high / n, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(m => m * power >= raw);
  const list = [];
  for (let v = 0; v <= high * 1.0001; v += step) list.push(v);
  return list;
}

// One chart: `series` is [{name, style, points: [[x, y]…]}]; `log` for a logarithmic x.
function chart(parent, title, xName, yName, series, options) {
  const { log = false, high = 0, mark = 0, stepped = false } = options || {};
  const figure = element(parent, "figure");
  const heading = element(figure, "h2", {}, title);
  const points = series.flatMap(s => s.points);
  if (!points.length) { element(figure, "figcaption", {}, "nothing to show"); return; }
  if (series.length > 1) for (const s of series) {
    element(heading, "span", { class: "key", style: `background: var(--${s.style})` });
    element(heading, "span", { style: "font-weight: 400" }, s.name);
  }
  const xs = points.map(p => p[0]).filter(v => !log || v > 0);
  if (!xs.some(v => v > 0)) { element(figure, "figcaption", {}, "all are 0"); return; }
  const x1 = Math.max(...xs, mark), x0 = log ? Math.max(Math.min(...xs), x1 / 1e5) : 0;
  const y1 = (high || Math.max(...points.map(p => p[1]))) || 1;
  const place = v => log ? Math.log(Math.max(v, x0) / x0) / (Math.log(x1 / x0) || 1) : v / (x1 || 1);
  const px = v => L + (W - L - R) * place(v), py = v => H - B - (H - B - T) * v / y1;
  const svg = element(figure, "svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  for (const v of steps(y1, 5)) {
    element(svg, "line", { class: "grid", x1: L, x2: W - R, y1: py(v), y2: py(v) });
    element(svg, "text", { x: L - 6, y: py(v) + 4, "text-anchor": "end" }, short(v));
  }
  let ticks = steps(x1, 6);
  if (log) {
    ticks = [];
    for (let p = 10 ** Math.floor(Math.log10(x0)); p <= x1; p *= 10)
      for (const m of x1 / x0 < 100 ? [1, 2, 5] : [1]) if (m * p >= x0 && m * p <= x1) ticks.push(m * p);
  }
  for (const v of ticks) element(svg, "text", { x: px(v), y: H - B + 14, "text-anchor": "middle" }, short(v));
  element(svg, "text", { x: W - R, y: H - 3, "text-anchor": "end" }, xName);
  if (mark) element(svg, "line", { class: "mark", x1: px(mark), x2: px(mark), y1: T, y2: H - B });
  for (const s of series) {
    const path = s.points.map((p, i) => (i ? (stepped ? `H${px(p[0]).toFixed(1)}V` : "L" + px(p[0]).toFixed(1) + ",")
      : "M" + px(p[0]).toFixed(1) + ",") + py(p[1]).toFixed(1)).join("");
    element(svg, "path", { class: "curve " + s.style, d: path });
  }
  const note = element(figure, "figcaption", {}, mark ? `dashed: the target of ${short(mark)}` : "");
  const still = note.textContent, rule = element(svg, "line", { class: "mark", y1: T, y2: H - B, visibility: "hidden" });
  svg.onpointermove = event => {
    const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) * W / box.width;
    const near = s => s.points.reduce((best, p) => Math.abs(px(p[0]) - at) < Math.abs(px(best[0]) - at) ? p : best);
    const first = near(series[0]);
    for (const key of ["x1", "x2"]) rule.setAttribute(key, px(first[0]));
    rule.setAttribute("visibility", "visible");
    note.textContent = `${round(first[0])} ${xName}: ` +
      series.map(s => `${round(near(s)[1])} ${series.length > 1 ? s.name : yName}`).join(", ");
  };
  svg.onpointerleave = () => { rule.setAttribute("visibility", "hidden"); note.textContent = still; };
}

// The table of percentiles: `rows` is [[key of data, name]…].
function spreads(rows) {
  const table = element(element(body, "div", { class: "wide" }), "table");
  const columns = ["mean", "p1", "p10", "p50", "p90", "p95", "p99", "max"];
  const head = element(table, "tr");
  for (const c of ["", ...columns]) element(head, "th", {}, c);
  for (const [key, name] of rows) {
    const row = element(table, "tr");
    element(row, "td", {}, name);
    for (const c of columns) element(row, "td", {}, data[key].count ? round(data[key][c]) : "–");
  }
}

)html";

constexpr std::string_view kEnd = R"html(</script>
</body>
</html>
)html";

}  // namespace

std::string chart_page(std::string_view title, const JsonObject& data, std::string_view script) {
  std::string page(kHead);
  page += title;
  page += kStyle;
  for (const char c : to_json(data)) {
    // No text of the data may end the script.
    if (c == '<') {
      page += "\\u003c";
    } else {
      page += c;
    }
  }
  page += kScript;
  page += script;
  return page += kEnd;
}

}  // namespace ingot
