#include "cli/hub/progress.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(Progress, BytesHaveThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(98362432), "98.4 MB");
  EXPECT_EQ(format_bytes(999499), "999 kB");
  EXPECT_EQ(format_bytes(999999), "1.00 MB");
  EXPECT_EQ(format_bytes(16'000'000'000), "16.0 GB");
  EXPECT_EQ(format_bytes(UINT64_MAX), "18.4 EB");
}

TEST(Progress, LineFitsTheTerminal) {
  const Progress progress("org/name", 1000);
  for (int columns : {10, 40, 80, 200}) {
    const std::string line = progress.line(500, 0, 2.0, columns);
    if (columns >= 60) {
      EXPECT_LT(line.size(), static_cast<size_t>(columns));
    }
    EXPECT_NE(line.find("50 %"), std::string::npos);
  }
  EXPECT_NE(progress.line(500, 0, 2.0, 80).find("250 B/s  0:02 left"), std::string::npos);
}

TEST(Progress, ResumedBytesDoNotCountForTheSpeed) {
  const Progress progress("x", 1000);
  EXPECT_NE(progress.line(600, 400, 2.0, 80).find("100 B/s  0:04 left"), std::string::npos);
}

TEST(Progress, OddAmountsAreHarmless) {
  EXPECT_NE(Progress("x", 0).line(5, 0, 1.0, 80).find("5 B"), std::string::npos);
  EXPECT_NE(Progress("x", 10).line(20, 0, 1.0, 80).find("100 %"), std::string::npos);
  EXPECT_NE(Progress("x", 10).line(0, 5, 0.0, 80).find("0 %"), std::string::npos);
}

}  // namespace
}  // namespace ingot
