#include "cli/bench/links_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.h"

namespace ingot {
namespace {

std::string file_of(const std::string& text) {
  const auto path = std::filesystem::path(testing::TempDir()) / "links.json";
  std::ofstream(path) << text;
  return path.string();
}

std::string with_ranks(const std::string& ranks) {
  return file_of(R"({"name": "n", "source": "s", "date": "2026-11-19", "ranks": )" + ranks + "}");
}

std::string refusal(const std::string& path) {
  try {
    read_links_file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LinksFile, IsRead) {
  const LinksFile links = read_links_file(
      with_ranks(R"({"kind": "wire", "collectives": "switch", "call_us": 2, "latency_us": 0.5, "gbs": 40})"));
  EXPECT_EQ(links.name, "n");
  EXPECT_EQ(links.kind, "wire");
  EXPECT_EQ(links.ranks.form, LinkForm::kSwitch);
  EXPECT_EQ(links.ranks.call_us, 2);
  EXPECT_EQ(links_text(links, false), "n (s; 2026-11-19): switch, wire, 2 us a call, 0.5 us a step, 40 GB/s");
  EXPECT_EQ(links_json(links).at("ranks").at("collectives").as_string(), "switch");
  EXPECT_EQ(links.stages.gbs, 40);  // the same links
}

TEST(LinksFile, StagesMayHaveOthers) {
  const LinksFile links =
      read_links_file(with_ranks(R"({"kind": "wire", "collectives": "ring", "latency_us": 0.5, "gbs": 40}, "stages":
                    {"kind": "string", "latency_us": 7, "gbs": 2})"));
  EXPECT_EQ(links.ranks.gbs, 40);
  EXPECT_EQ(links.stages.latency_us, 7);
  EXPECT_EQ(links_text(links, true),
            "n (s; 2026-11-19): ring, wire, 0 us a call, 0.5 us a step, 40 GB/s; between stages string, 0 us a call, 7 "
            "us a step, 2 GB/s");
}

TEST(LinksFile, IsRefusedInOneLine) {
  EXPECT_NE(refusal("/nowhere/links.json").find("/nowhere/links.json"), std::string::npos);
  EXPECT_NE(refusal(file_of("{")).find("[json]"), std::string::npos);
  EXPECT_NE(refusal(file_of("[]")).find("array"), std::string::npos);
  EXPECT_NE(refusal(file_of(R"({"name": "n"})")).find("source"), std::string::npos);
  EXPECT_NE(refusal(file_of(R"({"name": "", "source": "s"})")).find("'name' is empty"), std::string::npos);
  EXPECT_NE(refusal(file_of(R"({"name": "n", "source": "s", "date": "d"})")).find("'ranks'"), std::string::npos);
  const std::pair<const char*, const char*> bad[] = {
      {R"({"kind": "wire", "collectives": "tree", "latency_us": 1, "gbs": 1})", "tree"},
      {R"({"kind": "wire", "collectives": "ring", "gbs": 1})", "latency_us"},
      {R"({"kind": "wire", "collectives": "ring", "latency_us": -1, "gbs": 1})", "'latency_us' is -1"},
      {R"({"kind": "wire", "collectives": "ring", "latency_us": 1, "gbs": 0})", "'gbs' is 0"},
      {R"({"kind": "wire", "collectives": "ring", "latency_us": 1, "gbs": "fast"})", "gbs"},
      {R"({"kind": "wire", "collectives": "ring", "latency_us": 1, "gbs": 1, "call_us": 1e99})", "call_us"},
      {R"({"kind": "wire", "collectives": "ring", "latency_us": 1, "gbs": 1}, "stages": {"kind": "wire", "gbs": 1})",
       "latency_us"},
      {R"("fast")", "ranks"}};
  for (const auto& [ranks, word] : bad) {
    const std::string line = refusal(with_ranks(ranks));
    EXPECT_NE(line.find(word), std::string::npos) << ranks << ": " << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace ingot
