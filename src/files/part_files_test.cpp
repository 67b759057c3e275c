// What a run after a killed one takes as finished: the items whose bytes are as they were written, however they were
// cut.
#include "files/part_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "files/files_test_support.h"

namespace ingot {
namespace {

// Two items: one of two ranges, written in pieces at odd places and backwards, and one whole.
const std::vector<PartItem> kItems = {{{0, 3, 50}, {0, 70, 21}}, {{0, 91, 9}}};

void write_pieces(PartFiles& files) {
  std::vector<std::byte> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  const auto put = [&](size_t from, size_t to) { files.write(0, from, std::span(bytes).subspan(from, to - from)); };
  put(70, 91);
  put(26, 53);
  put(12, 26);
  put(3, 12);
  put(91, 100);
}

TEST(PartFiles, ANextRunTakesWhatIsAsItWasWritten) {
  const TempDir dir;
  const std::string out = dir / "file";
  for (const bool damaged : {false, true}) {
    {
      PartFiles files(out, false, {{"", 100}}, kItems, damaged ? "second" : "first");
      EXPECT_FALSE(files.resumed());
      write_pieces(files);
      files.finish(0);
      files.finish(1);
    }
    if (damaged) std::fstream(out + ".part", std::ios::in | std::ios::out | std::ios::binary).seekp(40).put('x');
    PartFiles files(out, false, {{"", 100}}, kItems, damaged ? "second" : "first");
    EXPECT_TRUE(files.resumed());
    EXPECT_EQ(files.finished(0), !damaged);
    EXPECT_TRUE(files.finished(1));
  }
}

}  // namespace
}  // namespace ingot
