#include "ladder/rivals.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace ingot::ladder {
namespace {

// A program that answers as `body` says: Python, with the line read as `line`.
class RivalsTest : public testing::Test {
 protected:
  std::string program(const std::string& body) {
    const std::string file = testing::TempDir() + "rivals_" + std::to_string(getpid()) + ".py";
    std::ofstream(file) << "import json, sys\nfor text in sys.stdin:\n  line = json.loads(text)\n" << body;
    return file;
  }
};

TEST_F(RivalsTest, AnswersCaseByCase) {
  Rivals rivals(program(
      "  if 'op' in line:\n"
      "    assert line['size'] == [2, 3] and line['threads'] == 2 and line['device'] == 'cpu'\n"
      "    print(json.dumps({'rivals': [{'name': line['op'] + ' fast'}, {'name': 'b', 'absent': 'no b'}]}), "
      "flush=True)\n"
      "  else:\n"
      "    print(json.dumps({'seconds': 0.5} if 'fast' in line['run'] else {'absent': 'lost'}), flush=True)\n"));
  rivals.use_threads(2);
  std::vector<RivalTime> all = rivals.begin("softmax", {2, 3}, "f32", "", "cpu");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "softmax fast");
  EXPECT_EQ(all[0].absent, "");
  EXPECT_EQ(all[1].absent, "no b");
  EXPECT_EQ(rivals.run(all[0]), 0.5);
  EXPECT_EQ(rivals.run(all[1]), 0);
  RivalTime other{.name = "slow"};
  EXPECT_EQ(rivals.run(other), 0);
  EXPECT_EQ(other.absent, "lost");
}

TEST_F(RivalsTest, OneThatDiesIsOneLine) {
  Rivals rivals(
      program("  if 'run' in line: sys.exit(3)\n"
              "  print(json.dumps({'rivals': [{'name': 'a'}]}), flush=True)\n"));
  std::vector<RivalTime> all = rivals.begin("softmax", {2}, "f32", "", "cpu");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(rivals.run(all[0]), 0);
  EXPECT_NE(all[0].absent.find("has ended"), std::string::npos) << all[0].absent;
  EXPECT_EQ(all[0].absent.find('\n'), std::string::npos);
  all = rivals.begin("scan", {2}, "f32", "", "cpu");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(all[0].absent.find("has ended"), std::string::npos) << all[0].absent;
}

TEST_F(RivalsTest, NonsenseIsOneLine) {
  Rivals rivals(program("  print('Traceback', flush=True)\n"));
  const std::vector<RivalTime> all = rivals.begin("softmax", {2}, "f32", "", "cpu");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].absent.empty());
}

}  // namespace
}  // namespace ingot::ladder
