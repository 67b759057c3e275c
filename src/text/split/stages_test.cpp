// Normalizers and pre-tokenizers against what the `tokenizers` library makes of the same texts, and what they refuse.
#include <gtest/gtest.h>

#include <cstdlib>

#include "files/json.h"
#include "text/load/tokenizer_load.h"
#include "text/model/byte_level.h"
#include "text/split/matcher.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

std::string shown(std::string_view text) { return to_json(Json(boost::json::string(text))); }

void check_normalizer(const Json& stage, const JsonArray& cases) {
  Normalizer normalizer;
  read_normalizer(stage, normalizer);
  for (const Json& json : cases) {
    const std::string_view text = as_string(json.as_array()[0], "text");
    std::string buffer;
    const std::string_view got = normalizer.apply(text, buffer);
    ASSERT_EQ(shown(got), shown(as_string(json.as_array()[1], "result")))
        << to_json(stage).substr(0, 400) << shown(text);
  }
}

void check_pre_tokenizer(const Json& stage, const JsonArray& cases) {
  PreTokenizer pre_tokenizer;
  const bool byte_level = read_pre_tokenizer(stage, pre_tokenizer);
  PreTokenizer::Scratch scratch;
  for (const Json& json : cases) {
    const std::string_view text = as_string(json.as_array()[0], "text");
    const std::string_view cut = pre_tokenizer.split(text, true, scratch);
    JsonArray got;
    for (const Piece piece : scratch.pieces) {
      const std::string_view bytes = cut.substr(piece.begin, piece.end - piece.begin);
      std::string letters;
      if (byte_level) append_byte_letters(bytes, letters);
      got.emplace_back(boost::json::string(byte_level ? letters : bytes));
    }
    ASSERT_EQ(to_json(Json(got)), to_json(json.as_array()[1])) << to_json(stage).substr(0, 400) << shown(text);
  }
}

bool needs_regex(const Json& stage) {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  const auto read = [&] {
    if (stage.as_object().contains("normalizer"))
      read_normalizer(stage.at("normalizer"), normalizer);
    else
      read_pre_tokenizer(stage.at("pre_tokenizer"), pre_tokenizer);
  };
  return error_from(read).find("needs PCRE2") != std::string::npos;
}

size_t check_file(const std::string& path) {
  size_t cases = 0;
  for (const Json& line : json_lines(read_text_file(path))) {
    const JsonObject& object = line.as_object();
    if (!has_regex() && needs_regex(line)) continue;
    const JsonArray& pairs = object.at("cases").as_array();
    if (const Json* stage = find(object, "normalizer")) check_normalizer(*stage, pairs);
    if (const Json* stage = find(object, "pre_tokenizer")) check_pre_tokenizer(*stage, pairs);
    cases += pairs.size();
  }
  return cases;
}

TEST(Stages, EqualTheLibrary) {
  EXPECT_GT(check_file(fixture("stages.jsonl")), 1000u);
  if (const char* more = std::getenv("INGOT_STAGE_VECTORS"))
    RecordProperty("cases", static_cast<int>(check_file(more)));
}

std::string normalizer_error(std::string_view json) {
  Normalizer normalizer;
  return error_from([&] { read_normalizer(parse_json(json, "test"), normalizer); });
}

std::string pre_tokenizer_error(std::string_view json) {
  PreTokenizer pre_tokenizer;
  return error_from([&] { read_pre_tokenizer(parse_json(json, "test"), pre_tokenizer); });
}

TEST(Stages, RefusesWhatItDoesNotKnow) {
  const auto names = [](const std::string& error, std::string_view what) {
    EXPECT_NE(error.find(what), std::string::npos) << error;
  };
  names(normalizer_error(R"({"type":"Rot13"})"), "'Rot13'");
  names(pre_tokenizer_error(R"({"type":"Rot13"})"), "'Rot13'");
  names(normalizer_error(R"({"type":"Replace","pattern":{"String":""},"content":"a"})"), "empty string");
  names(normalizer_error(R"({"type":"Precompiled","precompiled_charsmap":"AAA"})"), "not base64");
  names(normalizer_error(R"({"type":"Precompiled","precompiled_charsmap":"A=AA"})"), "not base64");
  names(pre_tokenizer_error(R"({"type":"CharDelimiterSplit","delimiter":"ab"})"), "no single character");
  names(pre_tokenizer_error(R"({"type":"FixedLength","length":0})"), "length");
  names(pre_tokenizer_error(R"({"type":"Punctuation","behavior":"Odd"})"), "'Odd'");
  std::string many = R"({"type":"NFC"})";
  for (int i = 0; i < 100; i++) many += R"(,{"type":"NFC"})";
  names(normalizer_error(R"({"type":"Sequence","normalizers":[)" + many + "]}"), "more than 64");
}

TEST(Stages, TextsDoNotGrowWithoutBound) {
  std::string steps = R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaa"})";
  for (int i = 0; i < 20; i++) steps += R"(,{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaa"})";
  Normalizer normalizer;
  read_normalizer(parse_json(R"({"type":"Sequence","normalizers":[)" + steps + "]}", "test"), normalizer);
  std::string buffer;
  EXPECT_NE(error_from([&] { normalizer.apply("aaaa", buffer); }).find("normalization makes more"), std::string::npos);
}

TEST(Regex, Translation) {
  EXPECT_EQ(regex_to_pcre2(R"(a{,2}b{2}+)"), R"(a{0,2}(?:b{2})+)");
  EXPECT_EQ(regex_to_pcre2(R"((x|y){1,3}+)"), R"((?:(x|y){1,3})+)");
  EXPECT_EQ(regex_to_pcre2(R"([a[0-9]\h]\h\v\p{Han}\p{Lu})"), R"([a0-90-9A-Fa-f][0-9A-Fa-f]\x{b}\p{sc:Han}\p{Lu})");
  EXPECT_EQ(regex_to_pcre2(R"((?m:.)\u00e9\xe9)"), R"((?s:.)\x{00e9}\x{e9})");
  for (const char* pattern : {R"([a&&b])", R"([a[^b]])", R"(\g<x>)", R"(\X)", R"([\W])", R"(a(?i)b)", R"((?~a))",
                              R"(()", R"())", R"((*ACCEPT))", R"(a{2}?)", R"([a)", R"(\)", R"(\p{L)", R"((?x:a))"}) {
    EXPECT_NE(error_from([&] { regex_to_pcre2(pattern); }).find("[tokenizer] the pattern "), std::string::npos)
        << pattern;
  }
}

TEST(Regex, LimitsNameThePattern) {
  if (!has_regex()) {
    EXPECT_NE(error_from([] { make_matcher("ab?c"); }).find("the pattern ab?c needs PCRE2"), std::string::npos);
    GTEST_SKIP() << "built without PCRE2";
  }
  EXPECT_NE(error_from([] { make_matcher("(?<=a*)b"); }).find("(?<=a*)b"), std::string::npos);
  EXPECT_NE(error_from([] { make_matcher(std::string(200, '(') + std::string(200, ')')); }), "");
  EXPECT_NE(error_from([] { make_matcher(std::string(70000, 'a')); }).find("70000 bytes"), std::string::npos);
  const auto matcher = make_matcher("(a+)+$x|(?:a|b|ab)*c");
  std::vector<Piece> found;
  std::string text(100000, 'a');
  text.push_back('!');
  const std::string error = error_from([&] { matcher->find_all(text, found); });
  EXPECT_NE(error.find("(a+)+$x"), std::string::npos) << error;
}

}  // namespace
}  // namespace ingot
