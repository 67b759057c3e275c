// The official JSON-Schema-Test-Suite and a sample of MaskBench: no instance that a schema forbids may be let through,
// and of the schemas at least as many as here must be read and every instance judged right.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/data_test_support.h"
#include "files/json.h"
#include "grammar/front_ends.h"
#include "grammar/plain_matcher_test_support.h"
#include "grammar/schema/ordered_test_support.h"

namespace ingot::grammar {
namespace {

struct Tally {
  int groups = 0, refused = 0, exact = 0, valid_refused = 0, invalid_taken = 0;
  std::string wrong, refusals;
};

// One group: a schema and instances with their verdicts.
void judge(const Json& schema, const JsonArray& tests, const std::string& name, Tally& tally) {
  tally.groups++;
  std::unique_ptr<PlainMatcher> matcher;
  bool nothing = false;
  try {
    matcher = std::make_unique<PlainMatcher>(json_schema_grammar(to_json(schema), false, {}));
  } catch (const GrammarError& error) {
    nothing = std::string_view(error.what()).find("allows no value") != std::string_view::npos;
    if (!nothing) {
      tally.refused++;
      tally.refusals += name + ": " + error.place() + " " + error.what() + "\n";
      return;
    }
  }
  OrderedWriter writer(schema);
  bool right = true;
  for (const Json& test : tests) {
    const JsonObject& object = test.get_object();
    const bool valid = find(object, "valid")->get_bool();
    const std::string text = writer.write(*find(object, "data"));
    const bool taken = !nothing && matcher->accepts(text);
    if (taken == valid) continue;
    right = false;
    (valid ? tally.valid_refused : tally.invalid_taken)++;
    tally.wrong += (valid ? "valid refused: " : "INVALID TAKEN: ") + name + ": " + text.substr(0, 300) + "\n";
  }
  if (right) tally.exact++;
}

void show(const Tally& tally) {
  const char* shown = std::getenv("INGOT_SHOW_SUITE");
  if (shown == nullptr) return;
  fprintf(stderr, "%s%s", tally.refusals.c_str(), tally.wrong.c_str());
}

Tally judge_folder(const std::string& folder) {
  Tally tally;
  for (const std::string& name : test_data_names(folder, ".json")) {
    const Json file = parse_json(read_text_file(test_data(folder + "/" + name + ".json")), name);
    for (const Json& group : file.get_array()) {
      const JsonObject& object = group.get_object();
      judge(*find(object, "schema"), find(object, "tests")->get_array(),
            name + ": " + std::string(find(object, "description")->get_string()), tally);
    }
  }
  fprintf(stderr, "%s: %d groups, %d exact, %d refused, %d valid refused, %d invalid taken\n", folder.c_str(),
          tally.groups, tally.exact, tally.refused, tally.valid_refused, tally.invalid_taken);
  show(tally);
  return tally;
}

const std::string kSuite = "json-schema/JSON-Schema-Test-Suite/tests/";

TEST(SchemaSuite, Draft2020) {
  if (test_data_names(kSuite + "draft2020-12", ".json").empty()) GTEST_SKIP() << "no JSON-Schema-Test-Suite";
  const Tally tally = judge_folder(kSuite + "draft2020-12");
  EXPECT_EQ(tally.invalid_taken, 0) << tally.wrong;
  EXPECT_GE(tally.exact, 319);
}

TEST(SchemaSuite, Draft7) {
  if (test_data_names(kSuite + "draft7", ".json").empty()) GTEST_SKIP() << "no JSON-Schema-Test-Suite";
  const Tally tally = judge_folder(kSuite + "draft7");
  EXPECT_EQ(tally.invalid_taken, 0) << tally.wrong;
  EXPECT_GE(tally.exact, 231);
}

TEST(SchemaSuite, MaskBench) {
  const std::string packed = test_data("json-schema/maskbench_sample.tar.gz");
  if (!std::filesystem::exists(packed)) GTEST_SKIP() << "no sample of MaskBench";
  const std::string folder = ::testing::TempDir() + "/ingot_maskbench_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  if (std::system(("tar xzf '" + packed + "' -C '" + folder + "'").c_str()) != 0) GTEST_SKIP() << "no tar";
  Tally tally;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Json file = parse_json(read_text_file(entry.path().string()), entry.path().filename().string());
    const JsonObject& object = file.get_object();
    judge(*find(object, "schema"), find(object, "tests")->get_array(), entry.path().filename().string(), tally);
  }
  std::filesystem::remove_all(folder);
  fprintf(stderr, "MaskBench: %d schemas, %d refused, %d valid refused, %d invalid taken\n", tally.groups,
          tally.refused, tally.valid_refused, tally.invalid_taken);
  show(tally);
  EXPECT_EQ(tally.refused, 0) << tally.refusals;
  EXPECT_EQ(tally.valid_refused, 0) << tally.wrong;
  EXPECT_EQ(tally.invalid_taken, 0) << tally.wrong;
}

}  // namespace
}  // namespace ingot::grammar
