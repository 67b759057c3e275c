// The page of a replay.
#include <string_view>

#include "cli/bench/pages/chart_page.h"
#include "cli/bench/spread.h"
#include "cli/bench/trace/trace_report.h"

namespace ingot {
namespace {

constexpr std::string_view kScript = R"html(const n = data.requests, e = data.engine, prefix = data.prefix;
element(body, "h1", {}, "Replay of a trace");
element(body, "p", {}, `${data.trace.file}: lengths / ${data.trace.length_divisor}, ${data.trace.time_divisor} times faster; ` +
  `${data.model}; ${data.machine.cpu}, ${data.machine.threads} threads; ${e.seqs} seqs, ${e.pages} pages of ${e.page_rows} rows`);
element(body, "p", {}, `${n.sent} requests: ${n.finished} finished, ${n.busy} busy, ${n.refused} refused, ${n.failed} failed in ` +
  `${round(data.seconds)} s. Prompts ${data.prompt_tokens} tokens (${round(data.prompt_tps)}/s), answers ${data.output_tokens} ` +
  `(${round(data.output_tps)}/s). Prefix cache: ${round(prefix.hit_percent)} % of the prompts reused, ` +
  `${round(prefix.ideal_percent)} % came before in the trace. ${e.steps} steps, ${e.preempted} preempted, ${e.evicted} pages evicted.`);
spreads([["ttft_ms", "First token, ms"], ["gap_ms", "Gap between tokens, ms"], ["e2e_ms", "Whole answer, ms"],
  ["request_tps", "Tokens/s of a request"], ["total_tps", "Tokens/s of all"]]);
const charts = element(body, "div", { class: "charts" });
const over = key => data.series.map(s => [s.seconds, s[key]]);
chart(charts, "Time to the first token", "ms", "% of requests", [{ style: "a", points: data.ttft_curve }], { log: true, high: 100 });
chart(charts, "Gap between tokens", "ms", "% of gaps", [{ style: "a", points: data.gap_curve }],
  { log: true, high: 100, mark: data.gap_target_ms || 0 });
chart(charts, "Requests", "s", "", [{ name: "running", style: "a", points: over("running") },
  { name: "waiting", style: "b", points: over("waiting") }], { stepped: true });
chart(charts, "Tokens a second", "s", "tokens/s", [{ style: "a", points: over("tokens_per_second") }]);
chart(charts, "KV pages", "s", "", [{ name: "held by requests", style: "a", points: over("held_pages") },
  { name: "kept for reuse", style: "b", points: over("cached_pages") }], { stepped: true, high: e.pages });
)html";

}  // namespace

std::string trace_page(const TraceReport& report) {
  JsonObject json = trace_json(report);
  json["ttft_curve"] = spread_curve(report.ttft_ms);
  json["gap_curve"] = spread_curve(report.gap_ms);
  return chart_page("replay of a trace", json, kScript);
}

}  // namespace ingot
