#include "base/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace ingot {
namespace {

const std::string kReplacement = "\xef\xbf\xbd";

// With the address sanitizer's fake stacks all of them take minutes on AArch64.
#if defined(__SANITIZE_ADDRESS__)
constexpr uint32_t kStep = 7;
#else
constexpr uint32_t kStep = 1;
#endif

TEST(Utf8, EveryCodePointRoundTrips) {
  for (uint32_t cp = 0; cp <= 0x10ffff; cp += kStep) {
    std::string text;
    utf8_append(text, cp);
    if (cp >= 0xd800 && cp <= 0xdfff) {
      ASSERT_EQ(text, kReplacement);
      continue;
    }
    uint32_t decoded = ~0u;
    ASSERT_EQ(utf8_decode(text, 0, decoded), text.size()) << cp;
    ASSERT_EQ(decoded, cp);
    for (size_t n = 1; n < text.size(); n++) {
      ASSERT_FALSE(utf8_valid(text.substr(0, n)));
      ASSERT_EQ(utf8_replace_invalid(text.substr(0, n)), kReplacement);
    }
  }
  std::string above;
  utf8_append(above, 0x110000);
  EXPECT_EQ(above, kReplacement);
}

TEST(Utf8, PastTheEndIsInvalid) {
  uint32_t cp = 7;
  EXPECT_EQ(utf8_decode("a", 1, cp), 0u);
  EXPECT_EQ(utf8_decode("", 0, cp), 0u);
  EXPECT_EQ(cp, 7u);
  EXPECT_TRUE(utf8_valid(""));
}

// Each 1-, 2- and 3-byte string is valid exactly when it is the encoding of something.
TEST(Utf8, ShortStringsAgainstADirectDefinition) {
  for (unsigned a = 0x80; a < 0x100; a++) {
    for (unsigned b = 0; b < 0x100; b++) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      const bool expected = a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf;
      ASSERT_EQ(utf8_valid(text), expected) << a << " " << b;
    }
  }
  for (unsigned a = 0xe0; a < 0xf0; a++) {
    for (unsigned b = 0; b < 0x100; b++) {
      for (unsigned c = 0; c < 0x100; c++) {
        const std::string text = {static_cast<char>(a), static_cast<char>(b), static_cast<char>(c)};
        const bool tails = b >= 0x80 && b <= 0xbf && c >= 0x80 && c <= 0xbf;
        const unsigned cp = (a & 15) << 12 | (b & 63) << 6 | (c & 63);
        const bool expected = tails && cp >= 0x800 && (cp < 0xd800 || cp > 0xdfff);
        ASSERT_EQ(utf8_valid(text), expected) << a << " " << b << " " << c;
      }
    }
  }
}

// The examples of Unicode 3.9, tables 3-8 to 3-11.
TEST(Utf8, MaximalSubparts) {
  const std::string& r = kReplacement;
  EXPECT_EQ(utf8_replace_invalid("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(utf8_replace_invalid("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(utf8_replace_invalid("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(utf8_replace_invalid("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), r + r + r + r + "A");
  EXPECT_EQ(utf8_replace_invalid("plain é 🦊"), "plain é 🦊");
}

TEST(Utf8, ReplacedRandomBytesAreValidAndStable) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; i++) {
    std::string text(random() % 20, '\0');
    for (char& c : text) c = static_cast<char>(random() % 2 == 0 ? random() : 0x80 + random() % 0x80);
    const std::string replaced = utf8_replace_invalid(text);
    ASSERT_TRUE(utf8_valid(replaced));
    ASSERT_EQ(utf8_valid(text), replaced == text);
    ASSERT_EQ(utf8_replace_invalid(replaced), replaced);
    ASSERT_TRUE(utf8_valid(utf8_printable(text, random() % 25)));
  }
}

TEST(Utf8, Printable) {
  EXPECT_EQ(utf8_printable("blk.0\n\xff\x7f"), "blk.0\\x0a\\xff\\x7f");
  EXPECT_EQ(utf8_printable("é\u0085"), "é\\x85");
  EXPECT_EQ(utf8_printable("abcdef", 3), "abc…");
  EXPECT_EQ(utf8_printable("aéé", 2), "a…");
}

}  // namespace
}  // namespace ingot
