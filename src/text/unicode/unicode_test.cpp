#include "text/unicode/unicode.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace ingot {
namespace {

std::string nfc(std::string_view text) {
  std::string out;
  return to_nfc(text, out) ? out : std::string(text);
}

TEST(Unicode, AsciiCategoriesAreThoseOfTheTables) {
  for (uint32_t cp = 0; cp < 128; cp++) {
    const uint32_t bits = unicode_class(cp);
    const CategorySet expected = (CategorySet{1} << (bits & 31)) | ((bits & 0x40) != 0 ? kSpace : 0);
    EXPECT_EQ(category_of(cp), expected) << cp;
  }
}

TEST(Unicode, Categories) {
  EXPECT_TRUE(category_of('a') & kLl);
  EXPECT_TRUE(category_of('Z') & kLu);
  EXPECT_TRUE(category_of(0x1C5) & kLt);
  EXPECT_TRUE(category_of(0x2B0) & kLm);
  EXPECT_TRUE(category_of(0x4E2D) & kLo);
  EXPECT_TRUE(category_of(0x301) & kMark);
  EXPECT_TRUE(category_of(0xBD) & kNumber);
  EXPECT_TRUE(category_of('!') & kPunctuation);
  EXPECT_TRUE(category_of('$') & kSymbol);
  EXPECT_TRUE(category_of(0x1F600) & kSymbol);
  EXPECT_TRUE(category_of(0x1C89) & kLu);  // since Unicode 16.0
  EXPECT_FALSE(category_of(0x10FFFF) & (kLetter | kMark | kNumber | kPunctuation | kSymbol | kSpace));
  int spaces = 0;
  for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) spaces += (category_of(cp) & kSpace) != 0;
  EXPECT_EQ(spaces, 25);
}

TEST(Unicode, WordCharacters) {
  for (const uint32_t cp : {0x61u, 0x30u, 0x5Fu, 0x301u, 0x200Du, 0x24B6u, 0x2160u}) EXPECT_TRUE(is_word_character(cp));
  for (const uint32_t cp : {0x20u, 0x2Du, 0xBDu, 0x1F600u}) EXPECT_FALSE(is_word_character(cp)) << cp;
}

TEST(Unicode, Nfc) {
  EXPECT_EQ(nfc("plain é"), "plain é");
  EXPECT_EQ(nfc("e\u0301"), "é");
  EXPECT_EQ(nfc("xe\u0301y\u0323\u0307z"), "xéỵ\u0307z");
  EXPECT_EQ(nfc("a\u0301\u0323"), "ạ\u0301");      // reordered
  EXPECT_EQ(nfc("\u212B"), "Å");                   // a singleton
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");        // excluded from composition
  EXPECT_EQ(nfc("\u1100\u1161\u11A8"), "\uAC01");  // Hangul
  EXPECT_EQ(nfc("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(nfc("\u0301e"), "\u0301e");  // nothing before it
  EXPECT_EQ(nfc("a\u0328\u0304"), "\u0105\u0304");
  EXPECT_EQ(nfc("\U00011131\U00011127"), "\U0001112E");
  EXPECT_EQ(nfc("\U00011935\U00011930"), "\U00011935\U00011930");  // composes since Unicode 13 only
}

TEST(Unicode, Nfd) {
  EXPECT_EQ(to_nfd("é\uAC01"), "e\u0301\u1100\u1161\u11A8");
  EXPECT_EQ(to_nfd("\u1E69"), "s\u0323\u0307");
}

TEST(Unicode, NfcIsStable) {
  for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
    if (cp >= 0xD800 && cp < 0xE000) continue;
    std::string text;
    utf8_append(text, cp);
    const std::string once = nfc(text);
    ASSERT_EQ(nfc(once), once) << cp;
    ASSERT_EQ(nfc(to_nfd(text)), once) << cp;
  }
}

}  // namespace
}  // namespace ingot
