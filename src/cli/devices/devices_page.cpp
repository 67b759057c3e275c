#include <string_view>

#include "cli/bench/pages/chart_page.h"
#include "cli/devices/devices.h"

namespace ingot {
namespace {

// A matrix is a square of cells, the darker the larger the number; texts have no colour.
constexpr std::string_view kScript = R"html(element(body, "h1", {}, data.title);
for (const note of data.notes) element(body, "p", { style: "white-space: pre-wrap; font-family: monospace; margin: 0" }, note);
for (const t of data.tables) {
  const wide = element(body, "div", { class: "wide" });
  element(wide, "h2", {}, t.title);
  const table = element(wide, "table"), head = element(table, "tr");
  for (const c of t.columns) element(head, "th", {}, c);
  for (const r of t.rows) {
    const row = element(table, "tr");
    for (const v of r) element(row, "td", {}, typeof v !== "number" ? v : Number.isInteger(v) ? v : round(v));
  }
}
const pictures = element(body, "div", { class: "charts" });
for (const m of data.matrices) {
  const figure = element(pictures, "figure"), n = m.names.length, cell = 46, left = 70, top = 18;
  element(figure, "h2", {}, m.unit ? `${m.title}, ${m.unit}` : m.title);
  const svg = element(figure, "svg", { viewBox: `0 0 ${left + n * cell + 4} ${top + n * cell + 4}`, role: "img",
    "aria-label": m.title, style: `max-width: ${(left + n * cell) * 1.6}px` });
  const high = Math.max(...m.rows.flat().filter(v => typeof v === "number"), 0) || 1;
  m.names.forEach((name, i) => {
    element(svg, "text", { x: left + (i + .5) * cell, y: top - 6, "text-anchor": "middle" }, name);
    element(svg, "text", { x: left - 6, y: top + (i + .5) * cell + 4, "text-anchor": "end" }, name);
    m.rows[i].forEach((v, j) => {
      const box = element(svg, "rect", { x: left + j * cell + 1, y: top + i * cell + 1, width: cell - 2, height: cell - 2,
        rx: 4, fill: "var(--a)", "fill-opacity": typeof v === "number" ? .08 + .62 * v / high : 0, stroke: "var(--line)" });
      element(box, "title", {}, `${name} to ${m.names[j]}: ${typeof v === "number" ? round(v) + " " + m.unit : v ?? "–"}`);
      element(svg, "text", { x: left + (j + .5) * cell, y: top + (i + .5) * cell + 4, "text-anchor": "middle",
        style: "fill: var(--text); pointer-events: none" }, typeof v === "number" ? round(v) : v ?? "–");
    });
  });
}
for (const c of data.curves) chart(pictures, c.title, c.x, c.y, [{ style: "a", points: c.points }], { log: true });
)html";

}  // namespace

std::string devices_page(const JsonObject& data) { return chart_page("devices", data, kScript); }

}  // namespace ingot
