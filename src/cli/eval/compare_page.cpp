#include "cli/eval/compare_page.h"

#include <string_view>

#include "cli/bench/pages/chart_page.h"

namespace ingot {
namespace {

constexpr std::string_view kScript = R"html(const teacher = data.teacher, models = data.models;
const size = v => v >= 1e9 ? (v / 1e9).toFixed(2) + " GB" : v >= 1e6 ? (v / 1e6).toFixed(1) + " MB" : (v / 1e3).toFixed(0) + " kB";
const small = v => v === 0 ? "0" : v >= 0.0995 ? v.toFixed(3) : v.toPrecision(3);
element(body, "h1", {}, "What compression cost");
element(body, "p", {}, `Beside ${teacher.name} (${teacher.format}, ${size(teacher.bytes)}): ${data.tokens} tokens of ` +
  `${data.chunks} chunks of ${data.text}. KLD: how far a model's predictions are from the teacher's, a token; less is better.`);
const speeds = teacher.decode_tps !== undefined;
const table = element(element(body, "div", { class: "wide" }), "table"), head = element(table, "tr");
const columns = [["model", m => m.name], ["format", m => m.format], ["size", m => size(m.bytes)],
  ["bits", m => m.bits.toFixed(2)], ["perplexity", m => m.perplexity.toFixed(3)],
  ["KLD", m => m.kld === undefined ? "–" : `${small(m.kld)} ± ${small(m.kld_error)}`],
  ["p99", m => m.kld === undefined ? "–" : small(m.kld_p99)], ["largest", m => m.kld === undefined ? "–" : small(m.kld_max)],
  ["same top token", m => m.kld === undefined ? "–" : (100 * m.top1).toFixed(1) + " %"],
  ["beside the first", m => m.ratio_to_first === undefined ? "–" : `${m.ratio_to_first.toFixed(3)} ± ${m.ratio_error.toFixed(3)}`],
  ...(teacher.tasks || []).map((task, t) => [task.task, m => {
    const { accuracy, accuracy_error } = m.tasks[t];
    return `${(100 * accuracy).toFixed(1)} ± ${(100 * accuracy_error).toFixed(1)} %`;
  }]),
  ...speeds ? [["prefill, tok/s", m => round(m.prefill_tps)], ["decode, tok/s", m => round(m.decode_tps)]] : []];
for (const [name] of columns) element(head, "th", {}, name);
for (const m of [teacher, ...models]) {
  const row = element(table, "tr");
  for (const [, text] of columns) {
    // Many columns: a cell may have two lines, but a unit stays beside its number.
    const cell = text(m).replace("± ", "±\u00a0").replace(/ (%|[kMG]?B)$/, "\u00a0$1");
    element(row, "td", m.on_front ? { style: "font-weight: 600" } : {}, cell);
  }
}
element(body, "p", {}, "Bold: no other model here is both smaller and nearer to the teacher." +
  (teacher.tasks ? ` Tasks: the share of right answers, with its standard error (${teacher.tasks.map(t => `${t.task}: ${t.n} questions`).join(", ")}).` : ""));

// Size against KLD, the latter logarithmic; the front is the line.
const shown = models.filter(m => m.kld > 0);
if (shown.length) {
  const figure = element(body, "figure"), width = 900, height = 380, left = 64, right = 150, top = 14, bottom = 40;
  element(figure, "h2", {}, "Size and KLD");
  const svg = element(figure, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Size and KLD" });
  const most = Math.max(...shown.map(m => m.bytes)), least = Math.min(...shown.map(m => m.bytes));
  const margin = (most - least || most) * 0.08, x0 = Math.max(0, least - margin), x1 = most + margin;
  const y0 = Math.log10(Math.min(...shown.map(m => m.kld)) / 1.5), y1 = Math.log10(Math.max(...shown.map(m => m.kld)) * 1.5);
  const px = v => left + (width - left - right) * (v - x0) / (x1 - x0);
  const py = v => height - bottom - (height - bottom - top) * (Math.log10(v) - y0) / (y1 - y0);
  for (let p = Math.floor(y0); p <= y1; ++p) for (const m of y1 - y0 > 2.5 ? [1] : [1, 2, 5]) {
    const v = m * 10 ** p;
    if (Math.log10(v) < y0 || Math.log10(v) > y1) continue;
    element(svg, "line", { class: "grid", x1: left, x2: width - right, y1: py(v), y2: py(v) });
    element(svg, "text", { x: left - 6, y: py(v) + 4, "text-anchor": "end" }, String(+v.toPrecision(3)));
  }
  for (let i = 0; i <= 5; ++i) {
    const v = x0 + (x1 - x0) * i / 5;
    element(svg, "text", { x: px(v), y: height - bottom + 16, "text-anchor": "middle" }, size(v));
  }
  element(svg, "text", { x: left, y: top - 3 }, "KLD");
  const front = shown.filter(m => m.on_front).sort((a, b) => a.bytes - b.bytes);
  if (front.length > 1) element(svg, "path", { class: "curve a",
    d: front.map((m, i) => (i ? "L" : "M") + px(m.bytes).toFixed(1) + "," + py(m.kld).toFixed(1)).join("") });
  for (const m of shown) {
    const x = px(m.bytes), y = py(m.kld), r = 4;
    const spread = [m.kld - m.kld_error, m.kld + m.kld_error].map(v => py(Math.max(v, 10 ** y0)));
    element(svg, "line", { class: m.on_front ? "a" : "b", x1: x, x2: x, y1: spread[0], y2: spread[1] });
    element(svg, "path", { d: `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
      style: `fill: var(--${m.on_front ? "a" : "b"})` });
    element(svg, "text", { x: x + 8, y: y + 4 }, m.name);
  }
  element(figure, "figcaption", {}, "line: the models that no other one beats in both; bars: the standard error");
}

// Where the weights themselves are furthest from the teacher's.
for (const m of models) {
  const worst = m.worst_tensors;
  element(body, "h2", { style: "margin-top: 1.6rem" }, `Worst tensors of ${m.name}`);
  if (!worst.tensors.length) {
    element(body, "p", {}, worst.skipped ? `Not told: ${worst.skipped}.` : `None of ${worst.compared} differs from the teacher's.`);
    continue;
  }
  const table = element(element(body, "div", { class: "wide" }), "table"), names = element(table, "tr");
  for (const name of ["tensor", "format", "bits", "error"]) element(names, "th", {}, name);
  for (const t of worst.tensors) {
    const row = element(table, "tr"), error = t.error === null ? "not a number" : small(t.error);
    for (const text of [t.name, t.format, t.bits.toFixed(2), error]) element(row, "td", {}, text);
  }
  element(body, "p", {}, `Of ${worst.compared}${worst.alone ? ` (${worst.alone} others have no counterpart)` : ""}. Error: squares of what differs as a share of the teacher's squares.`);
}

// What a search for formats foresaw for other sizes, and what it measured.
if (data.search) {
  element(body, "h2", {}, "The search for formats");
  const found = element(element(body, "div", { class: "wide" }), "table"), names = element(found, "tr");
  for (const name of ["size of tensors", "KLD foreseen", "KLD measured"]) element(names, "th", {}, name);
  const tried = data.search.candidates.map((c, i) => ({ ...c, best: i === data.search.best }));
  for (const p of [...data.search.front, ...tried].sort((a, b) => a.bytes - b.bytes)) {
    const row = element(found, "tr"), style = p.best ? { style: "font-weight: 600" } : {};
    for (const text of [size(p.bytes), small(p.predicted_kld), p.measured_kld === undefined ? "–" : small(p.measured_kld)])
      element(row, "td", style, text);
  }
  element(body, "p", {}, `Measured over ${data.search.scored_tokens} tokens that nothing was fitted to; bold is what was written.`);
}
)html";

}  // namespace

std::string compare_page(const JsonObject& report) { return chart_page("what compression cost", report, kScript); }

}  // namespace ingot
