// Steps of a decoder: when text leaves, what is held back, and that time stays linear. That each step gives what the
// library gives is shown in tokenizer_stages_test.cpp.
#include "text/decode/decoder.h"

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/decode/stop_strings.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

using Kind = DecoderStep::Kind;

Decoder make(const std::vector<DecoderStep>& steps) {
  Decoder decoder;
  for (const DecoderStep& step : steps) decoder.add(step);
  return decoder;
}

// What each push gives, then what finish gives.
std::vector<std::string> pushes(const Decoder& decoder, const std::vector<std::string>& tokens,
                                bool continues = false) {
  Decoder::State state{.continues = continues};
  std::vector<std::string> texts;
  for (const std::string& token : tokens) decoder.push(token, state, texts.emplace_back());
  decoder.finish(state, texts.emplace_back());
  for (const std::string& text : texts) EXPECT_TRUE(utf8_valid(text));
  return texts;
}

using Texts = std::vector<std::string>;
const std::string kBad = "\xEF\xBF\xBD";

std::string byte_token(char byte) { return fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte)); }

Decoder llama() {
  return make({{.kind = Kind::kReplace, .from = "\u2581", .to = " "},
               {.kind = Kind::kByteFallback},
               {.kind = Kind::kFuse},
               {.kind = Kind::kStrip, .from = " ", .start = 1}});
}

TEST(Decoder, TextLeavesAtOnce) {
  EXPECT_EQ(pushes(llama(), {"\u2581\u2581a", "\u2581b", "\u2581"}), (Texts{" a", " b", " ", ""}));
  EXPECT_EQ(pushes(llama(), {"\u2581a"}, true), (Texts{" a", ""}));
  EXPECT_EQ(pushes(make({{.kind = Kind::kByteLevel}}), {"\u0120a", "\u00E4", "\u00B8", "\u0143"}),
            (Texts{" a", "", "", "\u4E2D", ""}));
  EXPECT_EQ(pushes(make({{.kind = Kind::kWordPiece, .from = "##", .flag = true}}), {"do", "##n", "."}),
            (Texts{"do", "n", ".", ""}));
  EXPECT_EQ(pushes(make({{.kind = Kind::kSpaced}}), {"a", "b"}), (Texts{"a", " b", ""}));
}

// A run of bytes is text or not as a whole: nothing leaves before that is known, all at once when it is not.
TEST(Decoder, RunsOfBytes) {
  EXPECT_EQ(pushes(llama(), {"a", "<0xE4>", "<0xB8>", "<0xAD>", "b"}), (Texts{"a", "", "", "", "\u4E2Db", ""}));
  EXPECT_EQ(pushes(llama(), {"<0x41>", "<0xE4>"}), (Texts{"", "", kBad + kBad}));
  EXPECT_EQ(pushes(llama(), {"<0x41>", "<0xFF>", "<0x42>", "c"}), (Texts{"", kBad + kBad, kBad, "c", ""}));
  const Decoder single = make({{.kind = Kind::kByteTokens}});
  EXPECT_EQ(pushes(single, {"<0x41>", "<0xE4>", "<0xFF>"}), (Texts{"A", "", kBad + kBad, ""}));
}

TEST(Decoder, WhatMayChangeIsHeldBack) {
  const Decoder suffix = make({{.kind = Kind::kBpeSuffix, .from = "</w>"}});
  EXPECT_EQ(pushes(suffix, {"a</w>", "b</w>"}), (Texts{"", "a ", "b"}));
  const Decoder strip = make({{.kind = Kind::kFuse}, {.kind = Kind::kStrip, .from = " ", .stop = 2}});
  EXPECT_EQ(pushes(strip, {"a ", "  ", "b "}), (Texts{"a", " ", "  b", ""}));
  const Decoder replace = make({{.kind = Kind::kFuse}, {.kind = Kind::kReplace, .from = "aab", .to = "-"}});
  EXPECT_EQ(pushes(replace, {"aa", "a", "ab", "a"}), (Texts{"", "a", "a-", "", "a"}));
  if (has_regex()) {
    const Decoder matches =
        make({{.kind = Kind::kFuse}, {.kind = Kind::kReplaceMatches, .to = "-", .matcher = make_matcher("a+|c")}});
    EXPECT_EQ(pushes(matches, {"ba", "ab", "c"}), (Texts{"", "", "", "b-b-"}));
  }
  const Decoder tidy = make({{.kind = Kind::kFuse}, {.kind = Kind::kWordPiece, .from = "##", .flag = true}});
  EXPECT_EQ(pushes(tidy, {"do", " not ", "."}), (Texts{"", "", "", "do not."}));
}

TEST(Decoder, TooManySteps) {
  Decoder decoder;
  for (size_t i = 0; i < Decoder::kMaxSteps; i++) decoder.add({.kind = Kind::kFuse});
  EXPECT_NE(error_from([&] { decoder.add({.kind = Kind::kFuse}); }), "");
}

// Every character beyond ASCII, byte by byte, through each decoder that knows bytes.
TEST(Decoder, EveryCharacterComesWhole) {
  const Decoder strict = llama();
  const Decoder single = make({{.kind = Kind::kByteTokens}});
  const Decoder raw;
  std::string text;
  for (uint32_t cp = 0x80; cp < 0x110000; cp++) {
    if (cp >= 0xD800 && cp < 0xE000) continue;
    text.clear();
    utf8_append(text, cp);
    std::string joined;
    Decoder::State strict_state, single_state, raw_state;
    for (size_t i = 0; i < text.size(); i++) {
      std::string out;
      const std::string token = byte_token(text[i]);
      strict.push(token, strict_state, joined);
      single.push(token, single_state, out);
      raw.push(text.substr(i, 1), raw_state, out);
      ASSERT_EQ(out, i + 1 == text.size() ? text + text : "") << cp;
      // Cut short here: U+FFFD, and nothing else.
      if (i + 1 < text.size() && cp % 251 == 0) {
        Decoder::State copy = raw_state;
        raw.finish(copy, out);
        ASSERT_EQ(out, kBad) << cp;
      }
    }
    strict.finish(strict_state, joined);
    ASSERT_EQ(joined, text);
  }
}

// The text before a stop string is the same however tokens cut both.
TEST(Decoder, StopStringsAcrossTokens) {
  const std::string text = "one \u4E2D\u6587 two\U0001F600 STOP three";
  for (const std::string stop : {"STOP", "\u6587 t", "\U0001F600", "e \u4E2D", "zz"}) {
    for (size_t cut = 1; cut <= 5; cut++) {
      StopStrings stops({stop});
      Decoder decoder;
      Decoder::State state;
      std::string shown, out;
      for (size_t pos = 0; pos < text.size(); pos += cut) {
        out.clear();
        decoder.push(std::string_view(text).substr(pos, cut), state, out);
        shown += stops.push(out);
      }
      out.clear();
      decoder.finish(state, out);
      shown += stops.push(out) + stops.finish();
      EXPECT_EQ(shown, text.substr(0, text.find(stop))) << stop << " " << cut;
    }
  }
}

// A million tokens through what holds back the most.
TEST(Decoder, TimeIsLinear) {
  const std::vector<Decoder> decoders = {
      llama(), make({{.kind = Kind::kFuse}, {.kind = Kind::kReplace, .from = std::string(1000, 'a') + "b", .to = ""}}),
      make({{.kind = Kind::kFuse}, {.kind = Kind::kStrip, .from = "a", .start = 9, .stop = SIZE_MAX}}),
      make({{.kind = Kind::kFuse}, {.kind = Kind::kCtc, .from = "ab", .to = "|", .flag = true}}),
      make({{.kind = Kind::kFuse}, {.kind = Kind::kByteLevel}, {.kind = Kind::kRepair}, {.kind = Kind::kFuse}})};
  for (const Decoder& decoder : decoders) {
    for (const std::string token : {"a", "<0xF0>", "<0x61>", " "}) {
      Decoder::State state;
      std::string out;
      for (int i = 0; i < 200000; i++) decoder.push(token, state, out);
      decoder.finish(state, out);
      EXPECT_LE(out.size(), 1200000u);
    }
  }
}

}  // namespace
}  // namespace ingot
