// Every model, post-processor, decoder and flag of added tokens against what the `tokenizers` library gives: small
// tokenizers made by tools/make_tokenizer_vectors.py. INGOT_TOKENIZER_VECTORS names a larger file of the same kind.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/utf8.h"
#include "text/decode/stream_decoder.h"
#include "text/load/tokenizer_load.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

std::string streamed(const Tokenizer& tokenizer, const std::vector<Token>& ids, bool show_special) {
  StreamDecoder decoder(tokenizer, {.show_special = show_special});
  std::string all;
  for (const Token id : ids) {
    const std::string text = decoder.push(id);
    EXPECT_TRUE(utf8_valid(text));
    all += text;
  }
  return all + decoder.finish();
}

// Text never becomes a special token here, where the library lets it if the model has that token too.
bool writes_special(const Tokenizer& tokenizer, const std::vector<Token>& ids) {
  return std::any_of(ids.begin(), ids.end(),
                     [&](Token id) { return tokenizer.is_special(id) && tokenizer.unknown() != id; });
}

bool names_unknown(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.unknown() && tokenizer.is_special(*tokenizer.unknown()) &&
         text.find(tokenizer.token_bytes(*tokenizer.unknown())) != text.npos;
}

void check_encode(const Tokenizer& tokenizer, const JsonArray& item) {
  const std::string text(item[0].as_string());
  const std::vector<Token> ids = tokens_of(item[1]);
  const auto or_ids = [&](const Json& json) { return json.is_array() ? tokens_of(json) : ids; };
  EXPECT_EQ(tokenizer.encode(text, {.parse_special = true}), ids) << "text: " << text;
  EXPECT_EQ(tokenizer.encode(text, {.add_special = true, .parse_special = true}), or_ids(item[2])) << "text: " << text;
  const std::vector<Token> plain = tokenizer.encode(text);
  EXPECT_FALSE(writes_special(tokenizer, plain)) << "text: " << text;
  if (item[3].is_null()) return;
  if (!writes_special(tokenizer, or_ids(item[3])) && !names_unknown(tokenizer, text)) {
    EXPECT_EQ(plain, or_ids(item[3])) << "plain text: " << text;
  }
}

void check_decode(const Tokenizer& tokenizer, const JsonArray& item) {
  const std::vector<Token> ids = tokens_of(item[0]);
  const std::string shown(item[1].as_string());
  EXPECT_EQ(tokenizer.decode(ids, true), shown) << testing::PrintToString(ids);
  EXPECT_EQ(streamed(tokenizer, ids, true), shown) << testing::PrintToString(ids);
  if (item[2].is_null()) return;
  const std::string hidden = item[2].is_string() ? std::string(item[2].as_string()) : shown;
  EXPECT_EQ(tokenizer.decode(ids, false), hidden) << testing::PrintToString(ids);
  EXPECT_EQ(streamed(tokenizer, ids, false), hidden) << testing::PrintToString(ids);
}

// Returns how many tokenizers there were.
size_t check_file(const std::string& text) {
  size_t n = 0;
  for (size_t pos = 0; pos < text.size() && !testing::Test::HasFailure(); n++) {
    const size_t end = std::min(text.find('\n', pos), text.size());
    const Json json = parse_json(std::string_view(text).substr(pos, end - pos), "a tokenizer with its cases");
    pos = end + 1;
    const std::string name(json.at("name").as_string());
    SCOPED_TRACE(name);
    std::unique_ptr<Tokenizer> tokenizer;
    const std::string source(json.at("json").as_string());
    const std::string error = error_from([&] { tokenizer = parse_tokenizer_json(source, "/nonexistent/t.json"); });
    if (error.find("needs PCRE2") != std::string::npos) continue;  // a build without it says so by name
    EXPECT_EQ(error, "");
    if (tokenizer == nullptr) break;
    for (const Json& item : json.at("encode").as_array()) check_encode(*tokenizer, item.as_array());
    for (const Json& item : json.at("decode").as_array()) check_decode(*tokenizer, item.as_array());
  }
  return n;
}

TEST(TokenizerStages, EqualTheLibrary) {
  const std::string text = read_xz(fixture("stages.jsonl.xz"));
  if (text.empty()) GTEST_SKIP() << "no xz";
  EXPECT_EQ(check_file(text), 108u);
}

// A normalizer may write a control token that nobody found in the text before: only where users wrote none of it.
TEST(TokenizerStages, NormalizedTextIsControlOnlyWhereAsked) {
  for (const std::string model :
       {R"("type":"WordLevel","vocab":{"?":0,"<s>":1,"<":2,"s":3,">":4})",
        R"("type":"WordPiece","vocab":{"?":0,"<s>":1,"<":2,"##s":3,"##>":4})",
        R"("type":"Unigram","unk_id":0,"vocab":[["?",-9],["<s>",0],["<",-2],["s",-2],[">",-2]])",
        R"("type":"BPE","merges":["< s","<s >"],"vocab":{"?":0,"<s>":1,"<":2,"s":3,">":4,"<s":5})"}) {
    const auto tokenizer = parse_tokenizer_json(
        R"({"added_tokens":[{"id":1,"content":"<s>","special":true}],"normalizer":{"type":"Lowercase"},"model":{)" +
            model + R"(,"unk_token":"?"}})",
        "/nonexistent/t.json");
    const std::vector<Token> control = {1};
    const TextRange users[] = {{1, 2}};
    EXPECT_EQ(tokenizer->encode("<S>", {.parse_special = true}), control) << model;
    EXPECT_EQ(tokenizer->encode("<s>", {.parse_special = true}), control) << model;
    for (const std::string text : {"<S>", "<s>"}) {
      EXPECT_FALSE(writes_special(*tokenizer, tokenizer->encode(text))) << model;
      EXPECT_FALSE(writes_special(*tokenizer, tokenizer->encode(text, {.parse_special = true, .plain = users})))
          << model;
    }
  }
}

// A file of tools/make_tokenizer_vectors.py.
class FurtherStages : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FurtherStages);

TEST_P(FurtherStages, EqualTheLibrary) {
  const std::string& file = GetParam();
  EXPECT_GT(check_file(file.ends_with(".xz") ? read_xz(file) : read_text_file(file)), 0u);
}

INSTANTIATE_TEST_SUITE_P(Named, FurtherStages, testing::ValuesIn(named_file("INGOT_TOKENIZER_VECTORS")));

}  // namespace
}  // namespace ingot
