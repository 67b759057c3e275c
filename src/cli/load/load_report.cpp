#include "cli/load/load_report.h"

#include <algorithm>
#include <map>

#include "cli/bench/spread.h"

namespace ingot {
namespace {

using State = LoadRecord::State;
constexpr size_t kSeriesPoints = 240;
constexpr size_t kProblems = 10;          // that are named
constexpr size_t kMaxKinds = 1000;        // of problems that are told apart
constexpr double kShortestBucket = 0.05;  // s

double mean_gap_ms(const LoadRecord& r) { return r.pieces > 1 ? 1e3 * (r.last - r.first) / (r.pieces - 1) : 0; }

bool first_in_time(const Slo& slo, const LoadRecord& r) {
  return slo.ttft_ms == 0 || 1e3 * (r.first - r.due) <= slo.ttft_ms;
}

bool keeps(const Slo& slo, const LoadRecord& r) {
  return slo.kept(1e3 * (r.first - r.due), mean_gap_ms(r), 1e3 * (r.end - r.due));
}

// The most frequent first.
std::vector<std::pair<std::string, int64_t>> by_count(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<std::string, int64_t>> list(counts.begin(), counts.end());
  std::ranges::stable_sort(list, std::ranges::greater{}, &std::pair<std::string, int64_t>::second);
  list.resize(std::min(list.size(), kProblems));
  return list;
}

JsonArray counts_json(const std::vector<std::pair<std::string, int64_t>>& counts, const char* name) {
  JsonArray list;
  for (const auto& [what, count] : counts) list.push_back(JsonObject{{name, what}, {"count", count}});
  return list;
}

// Requests in flight at the end of each of some equal spans, and what came in it. Tokens of an answer are spread over
// its pieces.
JsonArray make_series(const LoadRun& run) {
  const double bucket = std::max(kShortestBucket, run.seconds / kSeriesPoints);
  const size_t n = static_cast<size_t>(run.seconds / bucket) + 1;
  const auto place = [&](double at) { return std::min(n - 1, static_cast<size_t>(std::max(0.0, at) / bucket)); };
  struct Span {
    double tokens = 0;
    int64_t begun = 0, ended = 0, failed = 0;
  };
  std::vector<Span> spans(n);
  for (const LoadRecord& r : run.records) {
    ++spans[place(r.sent)].begun;
    Span& end = spans[place(r.end)];
    ++end.ended;
    end.failed += r.state != State::kOk && r.state != State::kCancelled;
    if (r.pieces == 0) continue;
    const double tokens = static_cast<double>(r.tokens) / r.pieces;
    double at = r.first;
    spans[place(at)].tokens += tokens;
    for (const float gap : r.gaps) spans[place(at += static_cast<double>(gap))].tokens += tokens;
  }
  JsonArray series;
  int64_t open = 0;
  for (size_t i = 0; i < n; ++i) {
    open += spans[i].begun - spans[i].ended;
    series.push_back(JsonObject{{"seconds", static_cast<double>(i + 1) * bucket},
                                {"open", open},
                                {"tokens_per_second", spans[i].tokens / bucket},
                                {"failed", spans[i].failed}});
  }
  return series;
}

void add(LoadReport& report, const LoadRecord& r) {
  switch (r.state) {
    case State::kOk:
      ++report.ok;
      report.e2e_ms.push_back(1e3 * (r.end - r.due));
      if (r.tokens > 1 && r.last > r.first) report.request_tps.push_back((r.tokens - 1) / (r.last - r.first));
      if (keeps(report.setup.slo, r)) {
        ++report.good;
        report.good_tokens += r.tokens;
      }
      break;
    case State::kCancelled:
      ++report.cancelled;
      break;
    case State::kRejected:
      ++report.rejected;
      ++(r.status == 429 ? report.rejected_429 : report.rejected_503);
      if (r.retry_after >= 0) {
        report.retry_after_s.push_back(r.retry_after);
      } else {
        ++report.without_retry_after;
      }
      report.reject_ms.push_back(1e3 * (r.end - r.sent));
      break;
    case State::kFailed:
      ++report.failed;
      break;
    case State::kOpen:
    case State::kLost:
      ++report.lost;
  }
  if (r.pieces == 0 && r.state != State::kOk) return;
  report.ttft_ms.push_back(1e3 * (r.first - r.due));
  report.first_in_time += first_in_time(report.setup.slo, r);
  for (const float gap : r.gaps) report.gap_ms.push_back(1e3 * static_cast<double>(gap));
  report.prompt_tokens += r.prompt_tokens;
  report.output_tokens += r.tokens;
  if (r.state == State::kOk) report.counted &= r.counted;
}

}  // namespace

LoadReport make_load_report(const LoadRun& run, const LoadSetup& setup) {
  LoadReport report{.setup = setup, .sent = std::ssize(run.records), .seconds = run.seconds};
  report.client_cpu_percent = percent(run.cpu_seconds, run.seconds);
  std::map<std::string, int64_t> problems, finishes;
  for (const LoadRecord& r : run.records) {
    add(report, r);
    report.late_ms = std::max(report.late_ms, 1e3 * (r.sent - r.due));
    const bool bad = r.state != State::kOk && r.state != State::kCancelled;
    if (bad && (problems.size() < kMaxKinds || problems.contains(r.problem))) ++problems[r.problem];
    if (r.state == State::kOk) ++finishes[r.finish];
  }
  report.problems = by_count(problems);
  report.finishes = by_count(finishes);
  report.series = make_series(run);
  for (std::vector<double> LoadReport::*values :
       {&LoadReport::ttft_ms, &LoadReport::gap_ms, &LoadReport::e2e_ms, &LoadReport::request_tps,
        &LoadReport::reject_ms, &LoadReport::retry_after_s}) {
    std::ranges::sort(report.*values);
  }
  return report;
}

std::string load_table(const LoadReport& r) {
  const LoadOptions& o = r.setup.options;
  std::string arrivals = fmt::format("closed loop of {}", o.concurrency);
  if (!o.trace.empty()) {
    arrivals = fmt::format("{} (lengths / {}, {:g} times faster)", o.trace, o.scale.length, o.scale.time);
  } else if (o.rate > 0) {
    arrivals = fmt::format("{:g} requests/s", o.rate);
  }
  std::string text = fmt::format("{}, {}: {}\n", r.setup.url, o.model, arrivals);
  text += fmt::format("{} requests in {:.1f} s: {} ok, {} cancelled, {} rejected, {} failed, {} lost\n", r.sent,
                      r.seconds, r.ok, r.cancelled, r.rejected, r.failed, r.lost);
  if (r.rejected > 0) {
    text += fmt::format("  rejected: {} with 503 (busy), {} with 429 (a limit of this key), {} without Retry-After\n",
                        r.rejected_503, r.rejected_429, r.without_retry_after);
  }
  for (const auto& [what, count] : r.problems) text += fmt::format("  {} x {}\n", count, what);
  text += "\n" + spread_header();
  text += spread_line("first token ms", r.ttft_ms);
  text += spread_line("gap between tokens ms", r.gap_ms);
  text += spread_line("whole answer ms", r.e2e_ms);
  text += spread_line("tokens/s of a request", r.request_tps);
  text += spread_line("rejection ms", r.reject_ms);
  text += spread_line("Retry-After s", r.retry_after_s);
  text += fmt::format("\nprompts    {} tokens, {:.1f}/s\nanswers    {} tokens, {:.1f}/s{}\n", r.prompt_tokens,
                      rate(r.prompt_tokens, r.seconds), r.output_tokens, rate(r.output_tokens, r.seconds),
                      r.counted ? "" : " (pieces of text: the server does not count)");
  text += fmt::format("requests   {:.2f}/s ok; this client used {:.0f} % of a core, at most {:.1f} ms late\n",
                      rate(r.ok, r.seconds), r.client_cpu_percent, r.late_ms);
  if (r.setup.slo.any()) {
    const auto of_all = [&](int64_t n) { return percent(static_cast<double>(n), static_cast<double>(r.sent)); };
    text += fmt::format("goodput    {:.2f} requests/s and {:.1f} tokens/s within the SLO, {:.1f} % of all\n",
                        rate(r.good, r.seconds), rate(r.good_tokens, r.seconds), of_all(r.good));
    text += fmt::format("           {:.1f} % of all had their first token in time, {:.1f} % were rejected\n",
                        of_all(r.first_in_time), of_all(r.rejected));
  }
  return text;
}

JsonObject load_json(const LoadReport& r) {
  const LoadOptions& o = r.setup.options;
  const Slo& slo = r.setup.slo;
  JsonObject json{{"url", r.setup.url}, {"model", o.model}, {"endpoint", o.chat ? "chat" : "completions"}};
  json["mode"] = r.setup.mode;
  const bool closed = o.trace.empty() && o.rate == 0;
  json["concurrency"] = closed ? Json(o.concurrency) : Json(nullptr);
  json["rate"] = o.rate > 0 ? Json(o.rate) : Json(nullptr);
  json["trace"] = nullptr;
  if (!o.trace.empty()) {
    json["trace"] = JsonObject{{"file", o.trace}, {"length_divisor", o.scale.length}, {"time_divisor", o.scale.time}};
  }
  json["seed"] = o.seed;
  json["requests"] = JsonObject{{"sent", r.sent},         {"ok", r.ok},         {"cancelled", r.cancelled},
                                {"rejected", r.rejected}, {"failed", r.failed}, {"lost", r.lost}};
  json["rejected"] =
      JsonObject{{"429", r.rejected_429}, {"503", r.rejected_503}, {"retry_after_s", spread_json(r.retry_after_s)}};
  json["rejected_without_retry_after"] = r.without_retry_after;
  json["problems"] = counts_json(r.problems, "what");
  json["finish_reasons"] = counts_json(r.finishes, "reason");
  json["seconds"] = r.seconds;
  json["late_ms"] = r.late_ms;
  json["client_cpu_percent"] = r.client_cpu_percent;
  json["tokens_from"] = r.counted ? "usage" : "pieces";
  json["prompt_tokens"] = r.prompt_tokens;
  json["output_tokens"] = r.output_tokens;
  json["prompt_tps"] = rate(r.prompt_tokens, r.seconds);
  json["output_tps"] = rate(r.output_tokens, r.seconds);
  json["requests_per_second"] = rate(r.ok, r.seconds);
  json["ttft_ms"] = spread_json(r.ttft_ms);
  json["gap_ms"] = spread_json(r.gap_ms);
  json["e2e_ms"] = spread_json(r.e2e_ms);
  json["request_tps"] = spread_json(r.request_tps);
  json["reject_ms"] = spread_json(r.reject_ms);
  json["goodput"] = nullptr;
  if (slo.any()) {
    const auto limit = [](double ms) { return ms > 0 ? Json(ms) : Json(nullptr); };
    json["goodput"] = JsonObject{{"ttft_ms", limit(slo.ttft_ms)},
                                 {"itl_ms", limit(slo.itl_ms)},
                                 {"e2e_ms", limit(slo.e2e_ms)},
                                 {"requests", r.good},
                                 {"first_tokens_in_time", r.first_in_time},
                                 {"requests_per_second", rate(r.good, r.seconds)},
                                 {"output_tps", rate(r.good_tokens, r.seconds)},
                                 {"percent", percent(static_cast<double>(r.good), static_cast<double>(r.sent))}};
  }
  json["series"] = r.series;
  return json;
}

}  // namespace ingot
