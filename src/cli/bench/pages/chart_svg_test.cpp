#include "cli/bench/pages/chart_svg.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "files/files_test_support.h"

namespace ingot {
namespace {

JsonObject result(int batch, double prefill, double decode) {
  return {{"batch", batch}, {"prefill_tps", prefill}, {"decode_tps", decode}};
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(ChartSvg, OneBarForEachFigure) {
  const BenchSeries ours{"ours", {result(1, 48274, 269.04), result(8, 2.049, 0)}};
  const std::string svg = bench_chart_svg({"a title", {ours}});
  EXPECT_TRUE(contains(svg, "aria-label=\"a title\"")) << svg;
  EXPECT_EQ(count(svg, "<rect class=\"s0\""), 1 + 3);  // its name; what is 0 has none
  for (const char* text : {">48,274<", ">269<", ">2.05<", ">batch 1<", ">batch 8<"})
    EXPECT_TRUE(contains(svg, text)) << svg;
  EXPECT_FALSE(contains(svg, "own scale"));
  EXPECT_TRUE(contains(svg, "prefers-color-scheme: dark")) << svg;
}

TEST(ChartSvg, GroupsOfSeveralEnginesHaveTheirOwnScale) {
  const std::vector<BenchSeries> both = {{"a", {result(1, 0, 100), result(8, 0, 1000)}}, {"b", {result(8, 0, 500)}}};
  const std::string svg = bench_chart_svg({"", both});
  EXPECT_EQ(count(svg, "width=\"194.0\""), 2);  // the best of each
  EXPECT_EQ(count(svg, "width=\"97.0\""), 1);
  EXPECT_TRUE(contains(svg, "own scale")) << svg;
}

TEST(ChartSvg, NamesAreTextOnly) {
  const BenchSeries odd{"<script>&", {JsonObject{{"label", "\"<b>"}, {"decode_tps", 1.0}}}};
  const std::string svg = bench_chart_svg({"<i>", {odd}});
  EXPECT_FALSE(contains(svg, "<script"));
  EXPECT_FALSE(contains(svg, "<b>"));
  EXPECT_TRUE(contains(svg, "&lt;script>&amp;")) << svg;
}

TEST(ChartSvg, ReadsWhatBenchPrints) {
  const std::string path = testing::TempDir() + "ingot_chart_" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << R"({"results": [{"batch": 4, "decode_tps": 2}], "machine": {}})";
  const BenchChart read = read_bench_chart({path});
  ASSERT_EQ(read.series.size(), 1u);
  EXPECT_TRUE(contains(read.series[0].name, "ingot_chart_")) << read.series[0].name;
  EXPECT_TRUE(contains(bench_chart_svg(read), ">batch 4<")) << bench_chart_svg(read);
  std::ofstream(path) << R"({"results": []})";
  EXPECT_THROW(read_bench_chart({path}), Error);
  std::remove(path.c_str());
}

// docs/images/NAME.svg shows the figures of docs/figures/NAME, ours first.
TEST(ChartSvg, ThoseOfTheDocsAreDrawnFromTheirFigures) {
  const std::filesystem::path docs = std::filesystem::path(INGOT_SOURCE_DIR) / "docs";
  int charts = 0;
  for (const auto& folder : std::filesystem::directory_iterator(docs / "figures")) {
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(folder)) files.push_back(file.path().string());
    std::ranges::sort(files);
    std::ranges::stable_partition(files, [](const std::string& file) { return file.ends_with("/ingot.json"); });
    const std::string name = folder.path().filename().string();
    EXPECT_EQ(read_text_file((docs / "images" / (name + ".svg")).string()), bench_chart_svg(read_bench_chart(files)))
        << "draw it again: ingot bench --from " << fmt::format("{}", fmt::join(files, ",")) << " --svg docs/images/"
        << name << ".svg";
    ++charts;
  }
  EXPECT_GE(charts, 3);
}

}  // namespace
}  // namespace ingot
