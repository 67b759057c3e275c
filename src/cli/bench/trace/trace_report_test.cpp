#include "cli/bench/trace/trace_report.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ingot {
namespace {

TEST(TracePrompt, SharesWhatTheBlocksShare) {
  const TraceRequest a{.prompt = 2000, .output = 1, .blocks = {5, 6, 7, 8}};
  const TraceRequest b{.prompt = 1800, .output = 1, .blocks = {5, 6, 9, 8}};
  for (const int length : {1, 7, 16, 300}) {
    const TraceScale scale{.length = length};
    const std::vector<int32_t> x = trace_prompt(a, 0, scale, 1000), y = trace_prompt(b, 1, scale, 1000);
    EXPECT_EQ(x, trace_prompt(a, 3, scale, 1000));
    EXPECT_EQ(x.size(), static_cast<size_t>(2000 / length));
    const auto same = std::ranges::mismatch(x, y).in1 - x.begin();
    EXPECT_EQ(same, (1024 + length - 1) / length);
    EXPECT_TRUE(std::ranges::all_of(x, [](int32_t token) { return token >= 0 && token < 1000; }));
  }
}

TEST(TracePrompt, OthersShareNothing) {
  const TraceRequest request{.prompt = 160, .output = 1};
  const std::vector<int32_t> x = trace_prompt(request, 0, {}, 50000), y = trace_prompt(request, 1, {}, 50000);
  EXPECT_EQ(x.size(), 10u);
  EXPECT_NE(x[0], y[0]);
  EXPECT_EQ(trace_prompt({.prompt = 3, .output = 0}, 0, {}, 10).size(), 1u);
}

TEST(TraceReport, CountsTimesAndHits) {
  using State = TraceRecord::State;
  Trace trace{.kind = "mooncake", .requests = {}};
  trace.requests.push_back({.arrival = 0, .prompt = 1024, .output = 3, .blocks = {1, 2}});
  trace.requests.push_back({.arrival = 6, .prompt = 1024, .output = 1, .blocks = {1, 3}});
  trace.requests.push_back({.arrival = 6, .prompt = 1024, .output = 1, .blocks = {1, 3}});
  trace.requests.push_back({.arrival = 6, .prompt = 1024, .output = 1, .blocks = {1, 3}});
  TraceRun run;
  run.records.resize(4);
  run.records[0] = {.state = State::kFinished, .due = 0, .sent = 0.1, .first = 1, .last = 3, .prompt = 64, .tokens = 3};
  run.records[0].gaps = {0.5f, 1.5f};
  run.records[1] = {.state = State::kFinished, .due = 1, .sent = 1, .first = 4, .last = 4, .prompt = 64, .tokens = 1};
  run.records[1].reused = 32;
  run.records[2] = {.state = State::kBusy, .late = true, .due = 1, .sent = 1, .prompt = 64};
  run.records[3] = {.state = State::kRefused, .due = 1, .sent = 1, .prompt = 64};
  run.records[3].refused = "too long";
  run.samples = {{.at = 1, .tokens = 0}, {.at = 3, .tokens = 4}};
  run.seconds = 4;
  const TraceReport report = make_trace_report(trace, run, {.engine = {.gap_ms = 600}, .slo = {.ttft_ms = 2000}});
  const JsonObject json = trace_json(report);
  EXPECT_EQ(to_json(json.at("requests")), R"({"sent":4,"finished":2,"busy":1,"refused":1,"failed":0})");
  EXPECT_EQ(report.ttft_ms, (std::vector<double>{1000, 3000}));
  EXPECT_EQ(report.gap_ms, (std::vector<double>{500, 1500}));
  EXPECT_EQ(report.request_tps, std::vector<double>{1});
  EXPECT_EQ(report.total_tps, (std::vector<double>{0, 2}));
  EXPECT_EQ(report.late_ms, 100);
  EXPECT_EQ(json.at("prefix").at("hit_percent").as_double(), 25);
  EXPECT_EQ(json.at("prefix").at("ideal_percent").as_double(), 25);
  EXPECT_EQ(json.at("late").as_int64(), 1);
  EXPECT_EQ(json.at("goodput").at("requests").as_int64(), 1);
  EXPECT_EQ(json.at("goodput").at("percent").as_double(), 25);
  EXPECT_NE(trace_table(report).find("0.25 requests/s and 0.8 tokens/s within the SLO, 25.0 % of all"),
            std::string::npos);
  EXPECT_EQ(json.at("gaps_over_target_percent").as_double(), 50);
  EXPECT_NE(trace_table(report).find("2 finished, 1 busy, 1 refused, 0 failed in 4.0 s (too long)"), std::string::npos);
}

}  // namespace
}  // namespace ingot
