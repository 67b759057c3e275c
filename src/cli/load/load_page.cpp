// The page of a load test.
#include <string_view>

#include "cli/bench/pages/chart_page.h"
#include "cli/bench/spread.h"
#include "cli/load/load_report.h"

namespace ingot {
namespace {

constexpr std::string_view kScript = R"html(const n = data.requests, good = data.goodput;
element(body, "h1", {}, "Load on a server");
const arrivals = data.trace ? `${data.trace.file}: lengths / ${data.trace.length_divisor}, ${data.trace.time_divisor} times faster`
  : data.rate ? `${data.rate} requests/s` : `closed loop of ${data.concurrency}`;
element(body, "p", {}, `${data.url}, ${data.model}, ${data.endpoint}; ${arrivals}`);
element(body, "p", {}, `${n.sent} requests in ${round(data.seconds)} s: ${n.ok} ok, ${n.cancelled} cancelled, ` +
  `${n.rejected} rejected, ${n.failed} failed, ${n.lost} lost. Prompts ${data.prompt_tokens} tokens ` +
  `(${round(data.prompt_tps)}/s), answers ${data.output_tokens} (${round(data.output_tps)}/s), counted by ` +
  (data.tokens_from === "usage" ? "the server." : "pieces of text."));
if (good) element(body, "p", {}, `Goodput: ${round(good.requests_per_second)} requests/s and ${round(good.output_tps)} ` +
  `tokens/s within the SLO (` + [["first token", good.ttft_ms], ["gap", good.itl_ms], ["whole answer", good.e2e_ms]]
  .filter(x => x[1]).map(x => `${x[0]} ${x[1]} ms`).join(", ") + `), ${round(good.percent)} % of all.`);
for (const p of data.problems) element(body, "p", {}, `${p.count} x ${p.what}`);
spreads([["ttft_ms", "First token, ms"], ["gap_ms", "Gap between tokens, ms"], ["e2e_ms", "Whole answer, ms"],
  ["request_tps", "Tokens/s of a request"], ["reject_ms", "Rejection, ms"]]);
const charts = element(body, "div", { class: "charts" });
const over = key => data.series.map(s => [s.seconds, s[key]]);
const curve = (key, title, y, mark) => { if (data[key].length) chart(charts, title, "ms", y,
  [{ style: "a", points: data[key] }], { log: true, high: 100, mark: mark || 0 }); };
curve("ttft_curve", "Time to the first token", "% of requests", good && good.ttft_ms);
curve("gap_curve", "Gap between tokens", "% of gaps", good && good.itl_ms);
curve("e2e_curve", "Whole answer", "% of requests", good && good.e2e_ms);
chart(charts, "Tokens a second", "s", "tokens/s", [{ style: "a", points: over("tokens_per_second") }]);
chart(charts, "Requests", "s", "", [{ name: "open", style: "a", points: over("open") },
  { name: "rejected, failed or lost", style: "b", points: over("failed") }], { stepped: true });
)html";

}  // namespace

std::string load_page(const LoadReport& report) {
  JsonObject json = load_json(report);
  json["ttft_curve"] = spread_curve(report.ttft_ms);
  json["gap_curve"] = spread_curve(report.gap_ms);
  json["e2e_curve"] = spread_curve(report.e2e_ms);
  return chart_page("load on a server", json, kScript);
}

}  // namespace ingot
