#include "cli/bench/trace/trace_report.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "cli/bench/spread.h"

namespace ingot {
namespace {

void add_times(TraceReport& report, const TraceRecord& r) {
  report.ttft_ms.push_back(1e3 * (r.first - r.due));
  report.e2e_ms.push_back(1e3 * (r.last - r.due));
  for (const float gap : r.gaps) report.gap_ms.push_back(1e3 * static_cast<double>(gap));
  if (r.tokens > 1 && r.last > r.first) report.request_tps.push_back((r.tokens - 1) / (r.last - r.first));
}

// Rows of the prompt, scaled, whose blocks an earlier request had; the last row is computed in any case.
int64_t ideal_rows(const TraceRequest& request, int prompt, const TraceScale& scale,
                   std::unordered_set<int64_t>& seen) {
  int64_t known = 0;
  while (known < std::ssize(request.blocks) && seen.contains(request.blocks[static_cast<size_t>(known)])) ++known;
  seen.insert(request.blocks.begin(), request.blocks.end());
  const int64_t rows = (known * kTraceBlockTokens + scale.length - 1) / scale.length;
  return std::min<int64_t>(rows, prompt - 1);
}

bool good(const Slo& slo, const TraceRecord& r) {
  const double gap = r.tokens > 1 ? (r.last - r.first) / (r.tokens - 1) : 0;
  return slo.kept(1e3 * (r.first - r.due), 1e3 * gap, 1e3 * (r.last - r.due));
}

void count(TraceReport& report, const TraceRecord& record) {
  switch (record.state) {
    case TraceRecord::State::kFinished:
      ++report.finished;
      if (good(report.setup.slo, record)) {
        ++report.good;
        report.good_tokens += record.tokens;
      }
      break;
    case TraceRecord::State::kBusy:
      ++report.busy;
      report.late += record.late;
      break;
    case TraceRecord::State::kRefused:
      ++report.refused;
      if (report.first_refusal.empty()) report.first_refusal = record.refused;
      break;
    case TraceRecord::State::kOpen:
    case TraceRecord::State::kFailed:
      ++report.failed;
  }
}

// Rates of all requests are means over so long: a single step would show as a spike between zeros.
double window_seconds(const TraceReport& r) { return std::min(1.0, r.seconds / 10); }

JsonArray series_json(const TraceReport& r) {
  JsonArray series;
  size_t from = 0;  // the last sample that is a whole window back
  for (const TraceSample& now : r.samples) {
    while (from + 1 < r.samples.size() && r.samples[from + 1].at <= now.at - window_seconds(r)) ++from;
    const TraceSample& before = r.samples[from];
    series.push_back(JsonObject{{"seconds", now.at},
                                {"running", now.running},
                                {"waiting", now.waiting},
                                {"tokens_per_second", rate(now.tokens - before.tokens, now.at - before.at)},
                                {"held_pages", now.held_pages},
                                {"cached_pages", now.cached_pages}});
  }
  return series;
}

double over_target_percent(const TraceReport& r) {
  const auto over = r.gap_ms.end() - std::ranges::upper_bound(r.gap_ms, r.setup.engine.gap_ms);
  return percent(static_cast<double>(over), static_cast<double>(r.gap_ms.size()));
}

Json goodput_json(const TraceReport& r) {
  const Slo& slo = r.setup.slo;
  if (!slo.any()) return nullptr;
  const auto limit = [](double ms) { return ms > 0 ? Json(ms) : Json(nullptr); };
  return JsonObject{{"ttft_ms", limit(slo.ttft_ms)},
                    {"itl_ms", limit(slo.itl_ms)},
                    {"e2e_ms", limit(slo.e2e_ms)},
                    {"requests", r.good},
                    {"requests_per_second", rate(r.good, r.seconds)},
                    {"output_tps", rate(r.good_tokens, r.seconds)},
                    {"percent", percent(static_cast<double>(r.good), static_cast<double>(r.requests))}};
}

}  // namespace

TraceReport make_trace_report(const Trace& trace, TraceRun run, const TraceSetup& setup) {
  TraceReport report{.setup = setup,
                     .kind = trace.kind,
                     .requests = std::ssize(trace.requests),
                     .seconds = run.seconds,
                     .stats = run.stats,
                     .samples = std::move(run.samples)};
  std::unordered_set<int64_t> seen;
  for (size_t i = 0; i < run.records.size(); ++i) {
    const TraceRecord& r = run.records[i];
    count(report, r);
    report.late_ms = std::max(report.late_ms, 1e3 * (r.sent - r.due));
    if (r.tokens == 0) continue;
    report.prompt_tokens += r.prompt;
    report.output_tokens += r.tokens;
    report.reused_tokens += r.reused;
    report.ideal_tokens += ideal_rows(trace.requests[i], r.prompt, setup.scale, seen);
    add_times(report, r);
  }
  TraceSample before;
  for (const TraceSample& now : report.samples) {
    if (now.at - before.at < window_seconds(report)) continue;
    report.total_tps.push_back(rate(now.tokens - before.tokens, now.at - before.at));
    before = now;
  }
  for (std::vector<double> TraceReport::*values : {&TraceReport::ttft_ms, &TraceReport::gap_ms, &TraceReport::e2e_ms,
                                                   &TraceReport::request_tps, &TraceReport::total_tps}) {
    std::ranges::sort(report.*values);
  }
  return report;
}

std::string trace_table(const TraceReport& r) {
  const EngineStats& s = r.stats;
  std::string text = fmt::format(
      "{}: {} requests of {} (lengths / {}, {:g} times faster) on {}\n{}, {} threads, {} seqs, {} pages of {} rows\n",
      r.setup.file, r.requests, r.kind, r.setup.scale.length, r.setup.scale.time, r.setup.model, r.setup.machine,
      r.setup.engine.threads, r.setup.engine.max_seqs, s.pages, r.setup.engine.page_rows);
  text += fmt::format("{} finished, {} busy, {} refused, {} failed in {:.1f} s{}\n\n", r.finished, r.busy, r.refused,
                      r.failed, r.seconds, r.first_refusal.empty() ? "" : fmt::format(" ({})", r.first_refusal));
  text += spread_header();
  text += spread_line("first token ms", r.ttft_ms);
  text += spread_line("gap between tokens ms", r.gap_ms);
  text += spread_line("whole answer ms", r.e2e_ms);
  text += spread_line("tokens/s of a request", r.request_tps);
  text += spread_line("tokens/s of all", r.total_tps);
  text += fmt::format("\nprompts    {} tokens, {:.1f}/s\nanswers    {} tokens, {:.1f}/s\n", r.prompt_tokens,
                      rate(r.prompt_tokens, r.seconds), r.output_tokens, rate(r.output_tokens, r.seconds));
  text +=
      fmt::format("prefix     {} tokens reused, {:.1f} % of the prompts; {:.1f} % came before in the trace\n",
                  r.reused_tokens, percent(static_cast<double>(r.reused_tokens), static_cast<double>(r.prompt_tokens)),
                  percent(static_cast<double>(r.ideal_tokens), static_cast<double>(r.prompt_tokens)));
  text += fmt::format("engine     {} steps, {} preempted, {} pages evicted\n", s.steps, s.preempted, s.evicted);
  if (r.setup.engine.gap_ms > 0) {
    text +=
        fmt::format("gaps       {:.2f} % over the target of {:g} ms\n", over_target_percent(r), r.setup.engine.gap_ms);
  }
  if (r.setup.engine.ttft_target_ms > 0) {
    text += fmt::format("late       {} of the busy would have missed the target of {:g} ms\n", r.late,
                        r.setup.engine.ttft_target_ms);
  }
  if (r.setup.slo.any()) {
    text += fmt::format("goodput    {:.2f} requests/s and {:.1f} tokens/s within the SLO, {:.1f} % of all\n",
                        rate(r.good, r.seconds), rate(r.good_tokens, r.seconds),
                        percent(static_cast<double>(r.good), static_cast<double>(r.requests)));
  }
  return text;
}

JsonObject trace_json(const TraceReport& r) {
  const EngineStats& s = r.stats;
  JsonObject json;
  json["trace"] = JsonObject{{"file", r.setup.file},
                             {"kind", r.kind},
                             {"length_divisor", r.setup.scale.length},
                             {"time_divisor", r.setup.scale.time}};
  json["model"] = r.setup.model;
  json["requests"] = JsonObject{
      {"sent", r.requests}, {"finished", r.finished}, {"busy", r.busy}, {"refused", r.refused}, {"failed", r.failed}};
  json["seconds"] = r.seconds;
  json["late_ms"] = r.late_ms;
  json["prompt_tokens"] = r.prompt_tokens;
  json["output_tokens"] = r.output_tokens;
  json["prompt_tps"] = rate(r.prompt_tokens, r.seconds);
  json["output_tps"] = rate(r.output_tokens, r.seconds);
  json["ttft_ms"] = spread_json(r.ttft_ms);
  json["gap_ms"] = spread_json(r.gap_ms);
  json["e2e_ms"] = spread_json(r.e2e_ms);
  json["request_tps"] = spread_json(r.request_tps);
  json["total_tps"] = spread_json(r.total_tps);
  json["gap_target_ms"] = r.setup.engine.gap_ms > 0 ? Json(r.setup.engine.gap_ms) : Json(nullptr);
  json["gaps_over_target_percent"] = r.setup.engine.gap_ms > 0 ? Json(over_target_percent(r)) : Json(nullptr);
  const double target = r.setup.engine.ttft_target_ms;
  json["ttft_target_ms"] = target > 0 ? Json(target) : Json(nullptr);
  json["late"] = r.late;
  json["goodput"] = goodput_json(r);
  const auto prompts = static_cast<double>(r.prompt_tokens);
  json["prefix"] = JsonObject{{"reused_tokens", r.reused_tokens},
                              {"hit_percent", percent(static_cast<double>(r.reused_tokens), prompts)},
                              {"ideal_percent", percent(static_cast<double>(r.ideal_tokens), prompts)}};
  json["engine"] = JsonObject{{"seqs", r.setup.engine.max_seqs},
                              {"step_rows", r.setup.engine.step_rows},
                              {"page_rows", r.setup.engine.page_rows},
                              {"pages", s.pages},
                              {"steps", s.steps},
                              {"rows", s.rows},
                              {"preempted", s.preempted},
                              {"evicted", s.evicted},
                              {"failed_steps", s.failed_steps}};
  json["series"] = series_json(r);
  json["machine"] = JsonObject{{"cpu", r.setup.machine}, {"gpu", nullptr}, {"threads", r.setup.engine.threads}};
  return json;
}

}  // namespace ingot
