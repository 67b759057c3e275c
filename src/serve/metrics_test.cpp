#include "serve/metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "engine/model/known_ranks.h"

namespace ingot {
namespace {

std::map<std::string, double> series(const std::string& text) {
  std::map<std::string, double> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    EXPECT_TRUE(found.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second) << line;
  }
  return found;
}

TEST(Metrics, HistogramsAreCumulativeAndTheirBoundsInclusive) {
  Metrics metrics;
  for (const double value : {0.005, 0.0051, 3.0, 1e9}) metrics.queue_seconds.observe(value);
  const auto found = series(metrics.text({}));
  EXPECT_EQ(found.at("ingot_queue_seconds_bucket{le=\"0.005\"}"), 1);
  EXPECT_EQ(found.at("ingot_queue_seconds_bucket{le=\"0.01\"}"), 2);
  EXPECT_EQ(found.at("ingot_queue_seconds_bucket{le=\"2.5\"}"), 2);
  EXPECT_EQ(found.at("ingot_queue_seconds_bucket{le=\"5\"}"), 3);
  EXPECT_EQ(found.at("ingot_queue_seconds_bucket{le=\"+Inf\"}"), 4);
  EXPECT_EQ(found.at("ingot_queue_seconds_count"), 4);
  EXPECT_NEAR(found.at("ingot_queue_seconds_sum"), 1e9 + 3.0101, 1e-3);
}

TEST(Metrics, NothingAClientSendsMakesASeries) {
  Metrics metrics({"/a", "/b"});
  const size_t before = series(metrics.text({})).size();
  for (int i = 0; i < 1000; ++i) metrics.answered("/x" + std::to_string(i), 404);
  metrics.answered("/b", 200);
  metrics.answered("/b", 999);
  const auto found = series(metrics.text({}));
  EXPECT_EQ(found.size(), before);
  EXPECT_LE(found.size(), 500u);
  EXPECT_EQ(found.at("ingot_answers_total{route=\"other\",status=\"4xx\"}"), 1000);
  EXPECT_EQ(found.at("ingot_answers_total{route=\"/b\",status=\"2xx\"}"), 1);
  EXPECT_EQ(found.at("ingot_answers_total{route=\"/b\",status=\"5xx\"}"), 1);
}

TEST(Metrics, CountsReasons) {
  Metrics metrics;
  metrics.rejected(Rejected::kInternalError);
  metrics.finished(FinishReason::kDeadline);
  metrics.finished(FinishReason::kStop);
  const auto found = series(metrics.text({}));
  EXPECT_EQ(found.at("ingot_rejected_total{reason=\"internal_error\"}"), 1);
  EXPECT_EQ(found.at("ingot_finished_total{reason=\"deadline\"}"), 1);
  EXPECT_EQ(found.at("ingot_finished_total{reason=\"stop\"}"), 1);
  EXPECT_EQ(found.at("ingot_finished_total{reason=\"length\"}"), 0);
}

TEST(Metrics, TellsHowExpertsWereUsed) {
  Metrics::Now now;
  EXPECT_FALSE(series(Metrics().text(now)).contains("ingot_experts_touched_total"));
  now.engine.experts = {.layers = 48, .touched = 384, .busiest = 50};
  const auto found = series(Metrics().text(now));
  EXPECT_EQ(found.at("ingot_expert_layers_total"), 48);
  EXPECT_EQ(found.at("ingot_experts_touched_total"), 384);
  EXPECT_EQ(found.at("ingot_expert_busiest_rows_total"), 50);
}

TEST(Metrics, TellsOfEachEngineWhereThereAreSeveral) {
  Metrics::Now now;
  EXPECT_FALSE(series(Metrics().text(now)).contains("ingot_each_engine_running{engine=\"0\"}"));
  now.engines.resize(2);
  now.engines[0].running = 2;
  now.engines[1].rows = 7;
  const auto found = series(Metrics().text(now));
  EXPECT_EQ(found.at("ingot_each_engine_running{engine=\"0\"}"), 2);
  EXPECT_EQ(found.at("ingot_each_engine_rows_total{engine=\"1\"}"), 7);
}

TEST(Metrics, TellsOfEachRankWhereThereAreSeveral) {
  EXPECT_FALSE(series(Metrics().text({})).contains("ingot_ranks_alive"));
  RankUse first{.rank = 0, .host = "a", .alive = true, .counts = {.steps = 7, .step_ns = 2'000'000'000}};
  first.counts.bytes[static_cast<size_t>(CommKind::kAllGather)] = 4096;
  const RankUse second{
      .rank = 1, .host = "b", .alive = false, .counts = {.wait_ns = 500'000'000, .collective_ns = 750'000'000}};
  const KnownRanks ranks([&] { return std::vector{first, second}; });
  const auto found = series(Metrics().text({}));
  EXPECT_EQ(found.at("ingot_ranks_alive"), 1);
  EXPECT_EQ(found.at("ingot_rank_alive{engine=\"0\",rank=\"1\",host=\"hidden\"}"), 0);
  Metrics::Now for_admin;
  for_admin.hosts = true;
  EXPECT_EQ(series(Metrics().text(for_admin)).at("ingot_rank_alive{engine=\"0\",rank=\"1\",host=\"b\"}"), 0);
  EXPECT_EQ(found.at("ingot_rank_steps_total{engine=\"0\",rank=\"0\"}"), 7);
  EXPECT_EQ(found.at("ingot_rank_step_seconds_total{engine=\"0\",rank=\"0\"}"), 2);
  EXPECT_EQ(found.at("ingot_rank_wait_seconds_total{engine=\"0\",rank=\"1\"}"), 0.5);
  EXPECT_EQ(found.at("ingot_rank_collective_seconds_total{engine=\"0\",rank=\"1\"}"), 0.75);
  EXPECT_EQ(found.at("ingot_rank_sent_bytes_total{engine=\"0\",rank=\"0\",kind=\"all_gather\"}"), 4096);
}

TEST(Metrics, EverySeriesHasHelpAndAType) {
  const KnownRanks ranks([] { return std::vector<RankUse>(1); });
  Metrics::Now now;
  now.engines.resize(2);
  const std::string text = Metrics().text(now);
  std::set<std::string> declared;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      const std::string name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(declared.insert(name).second) << name;
      EXPECT_EQ(line.ends_with(" counter"), name.ends_with("_total")) << line;
    }
  }
  for (const auto& [name, value] : series(text)) {
    std::string base = name.substr(0, name.find('{'));
    for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
      if (base.ends_with(suffix) && !declared.contains(base)) base.resize(base.size() - suffix.size());
    }
    EXPECT_TRUE(declared.contains(base)) << name;
  }
}

TEST(Metrics, TellsOfTheProcess) {
  const auto found = series(Metrics().text({}));
  EXPECT_GT(found.at("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GE(found.at("process_threads"), 1);
  EXPECT_GE(found.at("process_open_fds"), 1);
  EXPECT_GT(found.at("process_start_time_seconds"), 1.6e9);
}

}  // namespace
}  // namespace ingot
