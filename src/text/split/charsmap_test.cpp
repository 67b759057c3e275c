#include "text/split/charsmap.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

void put(std::string& out, uint32_t value) {
  for (int i = 0; i < 4; i++) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

// A table with the entries "a" → "x" and "ab" → "yz", written by hand: the root's children lie at 256 ^ byte, those of
// "a" at 512 ^ byte, its value at 512, the value of "ab" at 768.
std::string table() {
  std::vector<uint32_t> units(1024);
  units[0] = 256 << 10;
  units[256 ^ 'a'] = 'a' | 1 << 8 | static_cast<uint32_t>((256 ^ 'a') ^ 512) << 10;
  units[512] = 0x80000000u;
  units[512 ^ 'b'] = 'b' | 1 << 8 | static_cast<uint32_t>((512 ^ 'b') ^ 768) << 10;
  units[768] = 0x80000000u | 2;
  std::string blob;
  put(blob, static_cast<uint32_t>(4 * units.size()));
  for (const uint32_t unit : units) put(blob, unit);
  return blob + std::string("x\0yz\0", 5);
}

// At each place the longest entry, otherwise the byte itself.
std::string longest_of(const Charsmap& map, std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const Charsmap::Match match = map.longest(text, pos);
    out.append(match.length > 0 ? match.text : text.substr(pos, 1));
    pos += std::max<size_t>(match.length, 1);
  }
  return out;
}

TEST(Charsmap, LongestAndShortest) {
  const Charsmap map(table());
  EXPECT_EQ(longest_of(map, "abcacab"), "yzcxcyz");
  std::string out;
  // By clusters: "a" and "b" are clusters of their own, and "b" has no entry.
  ASSERT_TRUE(map.apply_clusters("abcé", out));
  EXPECT_EQ(out, "xbcé");
  // A cluster of less than six bytes is replaced as a whole by the shortest entry that begins it.
  ASSERT_TRUE(map.apply_clusters("a\u0301!", out));
  EXPECT_EQ(out, "x!");
  ASSERT_TRUE(map.apply_clusters("a\u0301\u0301\u0301!", out));
  EXPECT_EQ(out, "x\u0301\u0301\u0301!");
  out = "kept";
  EXPECT_EQ(longest_of(map, "bc"), "bc");
  EXPECT_FALSE(map.apply_clusters("", out));
  EXPECT_EQ(out, "kept");
}

TEST(Charsmap, RefusesBrokenTables) {
  const std::string good = table();
  const auto error = [](const std::string& blob) { return error_from([&] { Charsmap map(blob); }); };
  EXPECT_EQ(error(good), "");
  for (size_t length = 0; length <= 4 + 4 * 1024; length++) {
    EXPECT_NE(error(good.substr(0, length)), "") << length;
  }
  for (const uint32_t length : {0u, 1u, 4095u, 4097u, 4100u, 0x80000000u, 0xFFFFFFFCu, 0xFFFFFFFFu}) {
    std::string bad;
    put(bad, length);
    EXPECT_NE(error(bad + good.substr(4)), "") << length;
  }
  EXPECT_NE(error(good + std::string("\xFF\0", 2)).find("not UTF-8"), std::string::npos);
  EXPECT_NE(error(good.substr(0, good.size() - 1)).find("does not end"), std::string::npos);
  std::string outside = good;
  outside.replace(4 + 4 * 768, 4, "\x40\x00\x00\x80", 4);
  EXPECT_NE(error(outside).find("points outside"), std::string::npos);
  std::string longer = good.substr(0, good.size() - 5) + std::string(5000, 'x') + '\0';
  EXPECT_NE(error(longer).find("points to no replacement"), std::string::npos);
}

// Any table that is not refused maps any text in bounded time to valid UTF-8.
TEST(Charsmap, RandomTables) {
  std::mt19937 random(4);
  const std::string good = table();
  const std::string text = "abab a\u0301 aaaa bbbb é中😀";
  size_t taken = 0;
  for (int i = 0; i < 20000; i++) {
    std::string blob = good;
    for (int n = 0; n < 1 + i % 4; n++) {
      const size_t hot[] = {0, 256 ^ 'a', 512, 512 ^ 'b', 768};
      const size_t unit = random() % 2 ? hot[random() % 5] : random() % 1024;
      blob[4 + 4 * unit + random() % 4] = static_cast<char>(random());
    }
    std::string out;
    const std::string error = error_from([&] {
      const Charsmap map(blob);
      map.apply_clusters(text, out);
      EXPECT_TRUE(utf8_valid(out));
      EXPECT_TRUE(utf8_valid(longest_of(map, text)));
    });
    if (error.empty()) taken++;
  }
  EXPECT_GT(taken, 100u);
}

}  // namespace
}  // namespace ingot
