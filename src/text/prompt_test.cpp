#include "text/prompt.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

class PromptTest : public testing::Test {
 protected:
  PromptTest() : dir_(fs::path(testing::TempDir()) / "prompt_test") {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  ~PromptTest() override { fs::remove_all(dir_); }

  std::string write(const char* name, const std::string& text) const {
    std::ofstream(dir_ / name) << text;
    return (dir_ / name).string();
  }
  const fs::path dir_;
};

constexpr const char* kTokenizer = R"({
  "added_tokens": [{"id": 6, "content": "<x>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<": 2, "x": 3, ">": 4, "ab": 5}, "merges": ["a b"]}})";

TEST_F(PromptTest, ControlTokensOnlyWhereTheTemplateWroteThem) {
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(write("tokenizer.json", kTokenizer));
  const auto encode = [&](std::vector<ChatTemplate::Piece> pieces) { return encode_prompt(*tokenizer, pieces); };
  using Tokens = std::vector<Token>;
  EXPECT_EQ(encode({{"<x>", true}, {"<x>", false}, {"<x>", true}}), (Tokens{6, 2, 3, 4, 6}));
  // Whoever wrote the two letters, they are one text.
  EXPECT_EQ(encode({{"<x>a", true}, {"b", false}}), (Tokens{6, 5}));
  EXPECT_EQ(encode({{"a", false}, {"b<x>", true}}), (Tokens{5, 6}));
  // A token that is written half by the template is none.
  EXPECT_EQ(encode({{"<x", true}, {">", false}}), (Tokens{2, 3, 4}));
  EXPECT_EQ(encode({{"<", false}, {"x>", true}}), (Tokens{2, 3, 4}));
  EXPECT_EQ(encode({{"", false}, {"<x>", true}, {"", false}}), (Tokens{6}));
  EXPECT_EQ(encode({}), Tokens{});
}

TEST_F(PromptTest, TemplatesOfADirectory) {
  EXPECT_EQ(template_in(dir_.string()).text, "");
  write("special_tokens_map.json", R"({"bos_token": {"content": "<b>"}, "eos_token": "<wrong>"})");
  write("tokenizer_config.json",
        R"({"chat_template": "of config", "eos_token": "<e>", "add_bos_token": true, "pad_token": null})");
  TemplateSource source = find_template(dir_.string());
  EXPECT_EQ(source.text, "of config");
  EXPECT_EQ(to_json(source.tokens), R"({"eos_token":"<e>","bos_token":"<b>"})");
  write("chat_template.json", R"({"chat_template": "of json"})");
  EXPECT_EQ(find_template(dir_.string()).text, "of json");
  write("chat_template.jinja", "of jinja");
  source = find_template(dir_.string());
  EXPECT_EQ(source.text, "of jinja");
  EXPECT_EQ(source.tokens.at("bos_token").as_string(), "<b>");
}

TEST_F(PromptTest, NamedTemplates) {
  const std::string path = write("tokenizer_config.json", R"({"chat_template": [
      {"name": "default", "template": "plain"}, {"name": "rag", "template": "x"}, {"name": "tool_use", "template": "t"}]})");
  const TemplateSource source = find_template(path);
  EXPECT_EQ(source.text, "plain");
  EXPECT_EQ(source.tool_use, "t");
  EXPECT_THROW(find_template(write("a.json", R"({"chat_template": 5})")), Error);
  EXPECT_THROW(find_template(write("a.json", R"({"chat_template": [5]})")), Error);
  EXPECT_THROW(find_template(write("a.json", "{")), Error);
}

TEST_F(PromptTest, TemplateFile) {
  EXPECT_EQ(find_template(write("x.jinja", "{{ a }}")).text, "{{ a }}");
  EXPECT_THROW(find_template((dir_ / "none").string()), Error);
}

TEST_F(PromptTest, GivenVariablesWin) {
  TemplateSource source;
  source.tokens = JsonObject{{"bos_token", "<b>"}, {"eos_token", "<e>"}};
  const JsonObject variables = template_variables(JsonObject{{"eos_token", "E"}, {"x", 1}}, source);
  EXPECT_EQ(to_json(variables), R"({"bos_token":"<b>","eos_token":"E","x":1})");
}

}  // namespace
}  // namespace ingot
