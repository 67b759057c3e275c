// Every name of a way to split: the hand-written scanners cut random texts as its regular expressions do.
#include "text/load/pre_names.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/utf8.h"
#include "text/split/normalizer.h"
#include "text/split/patterns.h"
#include "text/split/pretokenizer.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

// Letters of every case, marks, digits and other numbers of several scripts, CJK, kana, hangul, emoji, apostrophes and
// contractions, all kinds of space, punctuation and symbols, and what single families look for.
constexpr std::string_view kAlphabet[] = {
    "a",          "s",         "T",      "re",     "LL",     "ve",     "d",          "m",          "Hello",
    "wORLD",      "é",         "É",      "ß",      "ſ",      "K",      "ǅ",          "ʰ",          "ª",
    "ж",          "Ж",         "λ",      "Ω",      "א",      "ب",      "म",          "ก",          "เ",
    "ა",          "Ა",       "ᏸ",    "က",      "ᄀ",     "가",     "힣",         "ㄱ",         "ㄅ",
    "中",         "文",        "龥",     "龦",     "々",     "豈",     "㐀",         "\U00020000", "あ",
    "ア",         "ｱ",         "ー",     "゛",     "\u0301", "\u0903", "\u20dd",     "\u093f",     "\ufe0f",
    "\u200d",     "\u200c",    "0",      "1",      "7",      "12",     "345",        "६",          "٣",
    "３",         "²",         "½",      "Ⅷ",      "㊀",     "〇",     "\U0001F600", "\U0001F468", "©",
    "'",          "'s",        "'S",     "'t",     "'T",     "'re",    "'RE",        "'rE",        "'ve",
    "'m",         "'ll",       "'LL",    "'d",     "'D",     "'ſ",     "’",          "’s",         " ",
    " ",          " ",         "  ",     "    ",   "\u00a0", "\u3000", "\u2003",     "\u2028",     "\u0085",
    "\t",         "\n",        "\n",     "\r",     "\r\n",   "\n\n",   "\v",         "\f",         "!",
    "?",          ".",         ",",      "-",      "_",      "/",      "//",         "(",          ")",
    "[",          "]",         "{",      "|",      "~",      "^",      "`",          "$",          "+",
    "<",          ">",         "=",      "#",      "@",      "\\",     "\"",         "*",          "&",
    "%",          ":",         ";",      "…",      "—",      "“",      "。",         "，",         "、",
    "！",         "：",        "।",      "۔",      "،",      "€",      "∑",          "→",          "<sentinel:12>",
    "<sentinel:", "IMGIMGABZ", "IMGIMG", "ABCDEZ", "\u0001", "\ufffd", "\ue000"};

std::string random_text(std::mt19937& rng) {
  std::string text;
  const size_t pieces = 1 + rng() % 24;
  // Some texts draw from few pieces, so that long runs of one kind come up.
  const bool narrow = rng() % 3 == 0;
  std::array<size_t, 4> few{};
  for (size_t& i : few) i = rng() % std::size(kAlphabet);
  for (size_t i = 0; i < pieces; i++) {
    text += kAlphabet[narrow ? few[rng() % few.size()] : rng() % std::size(kAlphabet)];
  }
  return text;
}

// Intersections of classes, which the translation does not know, as what they mean.
std::string without_intersections(std::string_view pattern) {
  std::string text(pattern);
  for (const std::string_view letters : {R"(\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M})", R"(\p{Ll}\p{Lm}\p{Lo}\p{M})"}) {
    text =
        replace_all(text, fmt::format("[{}&&[^\\p{{Han}}]]", letters), fmt::format("(?:(?!\\p{{Han}})[{}])", letters));
  }
  return text;
}

std::vector<std::string> pieces_of(const PreTokenizer& splitter, std::string_view text) {
  PreTokenizer::Scratch scratch;
  const std::string_view cut = splitter.split(text, true, scratch);
  std::vector<std::string> pieces;
  for (const Piece piece : scratch.pieces) pieces.emplace_back(cut.substr(piece.begin, piece.end - piece.begin));
  return pieces;
}

// The chains that occur, each under the first of its names.
std::map<std::vector<std::string_view>, std::string_view> chains() {
  std::map<std::vector<std::string_view>, std::string_view> found;
  for (const PreName& name : all_pre_names()) {
    std::vector<std::string_view> patterns;
    for (const std::string_view pattern : name.patterns) {
      if (!pattern.empty()) patterns.push_back(pattern);
    }
    EXPECT_FALSE(patterns.empty()) << name.name;
    found.emplace(std::move(patterns), name.name);
  }
  return found;
}

TEST(PreNames, AllAreThereOnce) {
  std::set<std::string_view> names;
  for (const PreName& name : all_pre_names()) {
    EXPECT_TRUE(names.insert(name.name).second) << name.name;
    EXPECT_EQ(find_pre_name(name.name), &name);
  }
  EXPECT_EQ(names.size(), 87u);
  EXPECT_EQ(find_pre_name("gpt-3"), nullptr);
  EXPECT_EQ(find_pre_name(""), nullptr);
}

TEST(PreNames, NoneNeedsPcre2) {
  for (const auto& [patterns, name] : chains()) {
    for (const std::string_view pattern : patterns) {
      const bool known =
          find_scanner(pattern) != nullptr || pattern == kDigitGroupsPattern || pattern == kDigitCutsPattern;
      EXPECT_TRUE(known) << name << ": " << pattern;
    }
  }
}

TEST(PreNames, SplitAsTheirRegularExpressions) {
  if (!has_regex()) GTEST_SKIP() << "built without PCRE2";
  std::mt19937 rng(87);
  std::vector<std::string> texts;
  for (int i = 0; i < 3000; i++) texts.push_back(random_text(rng));
  texts.push_back(fmt::format("{:700}a{:1100}", "", ""));
  texts.push_back(fmt::format("{:1>100}a{:B>50}", "", ""));
  size_t checked = 0;
  for (const auto& [patterns, name] : chains()) {
    PreTokenizer scanners, regexes;
    for (const std::string_view pattern : patterns) {
      scanners.add(pattern_stage(pattern));
      regexes.add({.kind = PreTokenizerStage::Kind::kMatch, .matcher = compile_regex(without_intersections(pattern))});
    }
    for (const std::string& text : texts) {
      ASSERT_EQ(pieces_of(scanners, text), pieces_of(regexes, text)) << name << ": " << utf8_printable(text, 400);
      checked++;
    }
  }
  EXPECT_GT(checked, 60000u);
}

}  // namespace
}  // namespace ingot
