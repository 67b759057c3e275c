#include "cli/load/load_report.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ingot {
namespace {

using State = LoadRecord::State;

LoadRun some_run() {
  LoadRun run;
  LoadRecord ok{.state = State::kOk, .due = 0, .sent = 0.1, .first = 1, .last = 3, .end = 3.5};
  ok.prompt_tokens = 10;
  ok.tokens = 5;
  ok.pieces = 3;
  ok.counted = true;
  ok.gaps = {0.5f, 1.5f};
  ok.finish = "length";
  run.records.push_back(ok);
  LoadRecord cancelled{.state = State::kCancelled, .due = 1, .sent = 1, .first = 2, .last = 2, .end = 2};
  cancelled.tokens = cancelled.pieces = 1;
  run.records.push_back(cancelled);
  LoadRecord rejected{.state = State::kRejected, .due = 1, .sent = 1, .first = 2, .last = 2, .end = 1.25};
  rejected.problem = "busy";
  rejected.status = 503;
  run.records.push_back(rejected);
  rejected.status = 429;
  rejected.retry_after = 1;
  run.records.push_back(rejected);
  LoadRecord failed{.state = State::kFailed, .due = 1, .sent = 1, .end = 1.5};
  failed.problem = "</script>";
  run.records.push_back(failed);
  run.records.push_back({.state = State::kLost, .due = 1, .sent = 1, .end = 4});
  run.seconds = 4;
  run.cpu_seconds = 1;
  return run;
}

TEST(LoadReport, CountsTimesAndRates) {
  LoadSetup setup{.url = "http://x", .options = {.concurrency = 3}, .mode = "closed", .slo = {}};
  setup.options.model = "m";
  const LoadReport report = make_load_report(some_run(), setup);
  const JsonObject json = load_json(report);
  EXPECT_EQ(to_json(json.at("requests")), R"({"sent":6,"ok":1,"cancelled":1,"rejected":2,"failed":1,"lost":1})");
  EXPECT_EQ(json.at("rejected_without_retry_after").as_int64(), 1);
  EXPECT_EQ(json.at("rejected").at("429").as_int64(), 1);
  EXPECT_EQ(json.at("rejected").at("503").as_int64(), 1);
  EXPECT_EQ(report.retry_after_s, std::vector<double>{1});
  EXPECT_EQ(to_json(json.at("problems").at(0)), R"({"what":"busy","count":2})");
  EXPECT_EQ(to_json(json.at("finish_reasons")), R"([{"reason":"length","count":1}])");
  EXPECT_EQ(report.ttft_ms, (std::vector<double>{1000, 1000}));
  EXPECT_EQ(report.gap_ms, (std::vector<double>{500, 1500}));
  EXPECT_EQ(report.e2e_ms, std::vector<double>{3500});
  EXPECT_EQ(report.reject_ms, (std::vector<double>{250, 250}));
  EXPECT_EQ(report.request_tps, std::vector<double>{2});
  EXPECT_EQ(report.output_tokens, 6);
  EXPECT_EQ(json.at("output_tps").as_double(), 1.5);
  EXPECT_EQ(json.at("client_cpu_percent").as_double(), 25);
  EXPECT_EQ(json.at("concurrency").as_int64(), 3);
  EXPECT_TRUE(json.at("goodput").is_null());
  EXPECT_NEAR(report.late_ms, 100, 1e-9);
  double tokens = 0;
  const JsonArray& series = json.at("series").as_array();
  for (const Json& span : series) tokens += span.at("tokens_per_second").as_double();
  EXPECT_NEAR(tokens * 0.05, 6, 1e-6);
  EXPECT_EQ(series.back().at("open").as_int64(), 0);
  EXPECT_NE(load_table(report).find("6 requests in 4.0 s: 1 ok, 1 cancelled, 2 rejected, 1 failed, 1 lost"),
            std::string::npos);
}

TEST(LoadReport, Goodput) {
  const auto good = [](const char* slo) {
    const LoadSetup setup{.url = "", .options = {}, .mode = "closed", .slo = parse_slo(slo)};
    return make_load_report(some_run(), setup).good;
  };
  EXPECT_EQ(good("ttft=1000"), 1);
  EXPECT_EQ(good("ttft=999"), 0);
  EXPECT_EQ(good("ttft=1s,itl=1000ms,e2e=3.5s"), 1);
  EXPECT_EQ(good("ttft=1s,itl=999"), 0);
  EXPECT_EQ(good("e2e=3.4s"), 0);
  // The first token of a request counts by itself: that of the cancelled one too, of the rejected ones none.
  const auto in_time = [](const char* slo) {
    const LoadSetup setup{.url = "", .options = {}, .mode = "closed", .slo = parse_slo(slo)};
    return load_json(make_load_report(some_run(), setup)).at("goodput").at("first_tokens_in_time").as_int64();
  };
  EXPECT_EQ(in_time("ttft=1s,e2e=3.4s"), 2);
  EXPECT_EQ(in_time("ttft=999"), 0);
  for (const char* bad :
       {"", "ttft", "ttft=", "ttft=x", "ttft=0", "ttft=-1", "ttft=nan", "ttft=5h", "tpot=5", "ttft=1,"}) {
    EXPECT_THROW(parse_slo(bad), Error) << bad;
  }
}

TEST(LoadReport, NothingOfTheDataBecomesMarkup) {
  const std::string page = load_page(make_load_report(some_run(), {.url = "<script>", .options = {}, .slo = {}}));
  size_t scripts = 0;
  for (size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1)) ++scripts;
  EXPECT_EQ(scripts, 2u);
  EXPECT_EQ(page.find("http:"), std::string::npos);
}

TEST(LoadReport, EmptyRun) {
  const LoadReport report = make_load_report({}, {});
  EXPECT_EQ(load_json(report).at("requests").at("sent").as_int64(), 0);
  EXPECT_FALSE(load_table(report).empty());
}

}  // namespace
}  // namespace ingot
