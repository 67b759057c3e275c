#include "cli/report/learn_pages.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/report/report_file.h"
#include "files/files_test_support.h"

namespace ingot {
namespace {

constexpr ladder::StepInfo kSteps[] = {
    {"row_sum", true, 1, "plain", "One thread | a row.", "src/ladder/row_sum/1_plain.cu", "aaaaaaaaaaaa"},
    {"row_sum", true, 2, "warps", "A warp a row.", "src/ladder/row_sum/2_warps.cu", "bbbbbbbbbbbb"},
    {"row_sum", true, 3, "mine", "Another idea.", "src/ladder/row_sum/3_mine.cu", "cccccccccccc"},
    {"row_sum", false, 1, "loop", "A loop.", "src/ladder/row_sum/c1_loop.cpp", "dddddddddddd"},
};

constexpr const char* kMarks =
    "<!-- written by ingot report --docs: begin -->\n<!-- written by ingot "
    "report --docs: end -->\n";

JsonObject step(int order, const char* source, const char* hash, double seconds) {
  return {{"order", order}, {"name", "as it was"}, {"reason", "as it was"},   {"source", source},
          {"hash", hash},   {"seconds", seconds},  {"figure", 1.0 / seconds}, {"percent_of_limit", 50.0},
          {"gain", nullptr}};
}

// A run of two of the steps, of which the second has changed since.
JsonObject run_of(const char* second = "src/ladder/row_sum/2_warps.cu") {
  return {{"machine", JsonObject{{"cpu", "a CPU"}, {"gpu", "cuda:0 NVIDIA H200"}}},
          {"ladders",
           JsonArray{JsonObject{{"op", "row_sum"},
                                {"device", "cuda"},
                                {"shape", "16 x 16 f32"},
                                {"unit", "GB/s"},
                                {"bytes", 2e9},
                                {"flops", 1e9},
                                {"limit", "read"},
                                {"limit_seconds", 0.0005},
                                {"ratio_to_best_rival", nullptr},
                                {"rivals", JsonArray{JsonObject{{"name", "CUB"}, {"absent", "not built"}}}},
                                {"steps", JsonArray{step(1, "src/ladder/row_sum/1_plain.cu", "aaaaaaaaaaaa", 1e-3),
                                                    step(2, second, "old", 5e-4)}}}}}};
}

JsonObject measured_once(const JsonObject& run) {
  JsonObject measured;
  add_measured(measured, run, "1234567", "2026-11-18");
  return measured;
}

TEST(LearnPages, StaleAndMissingFiguresAreTold) {
  const LearnFiles before{{"README.md", std::string("# A\n\n") + kMarks + "mine\n"}};
  const LearnFiles after = write_learn_pages(kSteps, measured_once(run_of()), before);
  ASSERT_EQ(after.size(), 3u);
  EXPECT_TRUE(contains(after.at("README.md"), "| [Row sum](row_sum.md) | 3 | 1 |\n"));
  EXPECT_TRUE(after.at("README.md").ends_with("mine\n"));
  const std::string& page = after.at("row_sum.md");
  for (const char* text :
       {"# Row sum, step by step\n\nFor ", "One thread \\| a row.", "[plain](../../src/ladder/row_sum/1_plain.cu)",
        "| 1,000 | 1,000 | 50 |", "A warp a row. | stale: 500", "Another idea. | not measured",
        "A loop. | not measured", "16 x 16 f32, NVIDIA H200\n", "1234567 on 2026-11-18", "2 GB and 1 GFLOP", "4 TB/s",
        "CUB (not built)", "figures/row_sum-1.svg"})
    EXPECT_TRUE(contains(page, text)) << text << "\n" << page;
  EXPECT_FALSE(contains(page, "as it was")) << page;
  const std::string& figure = after.at("figures/row_sum-1.svg");
  for (const char* text : {"stale", "not measured", "class=\"s2\"", "50 %", "read: "})
    EXPECT_TRUE(contains(figure, text)) << text << "\n" << figure;
}

TEST(LearnPages, WhatAPersonWroteStays) {
  LearnFiles files{{"README.md", kMarks}, {"row_sum.md", std::string("# Mine\n\nbefore\n\n") + kMarks + "after\n"}};
  files = write_learn_pages(kSteps, {}, files);
  EXPECT_TRUE(files.at("row_sum.md").starts_with("# Mine\n\nbefore\n"));
  EXPECT_TRUE(files.at("row_sum.md").ends_with("after\n"));
  const LearnFiles again = write_learn_pages(kSteps, {}, files);
  EXPECT_EQ(again, files);
  files["row_sum.md"] = "no marks";
  EXPECT_THROW(write_learn_pages(kSteps, {}, files), Error);
}

TEST(LearnPages, AFigureNeedsAStep) {
  const LearnFiles files{{"README.md", kMarks}};
  EXPECT_THROW(write_learn_pages(kSteps, measured_once(run_of("src/ladder/row_sum/7_gone.cu")), files), Error);
}

TEST(LearnPages, ANewRunTakesTheOldOnesPlace) {
  JsonObject measured = measured_once(run_of());
  add_measured(measured, run_of(), "7654321", "2026-11-19");
  ASSERT_EQ(measured.at("ladders").as_array().size(), 1u);
  EXPECT_EQ(get_string(measured.at("ladders").as_array()[0].as_object(), "commit"), "7654321");
  JsonObject other = run_of();
  other["machine"].as_object()["gpu"] = "cuda:0 another";
  add_measured(measured, other, "7654321", "2026-11-19");
  EXPECT_EQ(measured.at("ladders").as_array().size(), 2u);
  EXPECT_THROW(add_measured(measured, {}, "1", "2"), Error);
}

// docs/learn is what its figures and the steps of this build say.
TEST(LearnPages, ThoseOfTheDocsAreWritten) {
  if (ladder::steps().empty()) GTEST_SKIP() << "built without the ladders";
  const std::string folder = INGOT_SOURCE_DIR "/docs/learn";
  const LearnFiles there = read_learn_files(folder);
  const std::string file = folder + "/measured.json";
  const JsonObject measured = std::filesystem::exists(file) ? read_ladders(file) : JsonObject{};
  const LearnFiles written = write_learn_pages(ladder::steps(), measured, there);
  for (const auto& [name, text] : written)
    EXPECT_EQ(there.contains(name) ? there.at(name) : "", text)
        << name << ": write it again: ingot report --docs docs/learn";
  for (const auto& [name, text] : there) EXPECT_TRUE(written.contains(name)) << name << " belongs to no operator";
}

}  // namespace
}  // namespace ingot
