// Ids and text equal to what the libraries that defined the tokenizers give: committed small ones, and the published
// ones where their files are at hand.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "files/gguf/gguf.h"
#include "files/json.h"
#include "text/load/tokenizer_load.h"
#include "text/tokenizer.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

class Fixture : public testing::TestWithParam<const char*> {};

TEST_P(Fixture, EqualsTheLibrary) {
  const std::string name = GetParam();
  const std::string file = name == "tok512" ? "tok512.bin" : name + ".json";
  const auto tokenizer = Tokenizer::load(fixture(file));
  EXPECT_EQ(check_cases(*tokenizer, read_text_file(fixture(name + ".jsonl"))), 250u);
}

INSTANTIATE_TEST_SUITE_P(Small, Fixture,
                         testing::Values("llama3_like", "o200k_like", "llama2_like", "mistral_like", "tok512"),
                         [](const auto& test) { return std::string(test.param); });

class Published : public testing::TestWithParam<std::string> {};

TEST_P(Published, EqualsTheLibrary) {
  const std::string name = GetParam();
  const std::string vectors = test_data("tokenizer-vectors/hf/" + name + ".jsonl.xz");
  const std::string file = test_data("tokenizers/" + name + ".tokenizer.json.xz");
  const std::string json = read_xz(file);
  if (json.empty()) GTEST_SKIP() << "no xz";
  const auto tokenizer = parse_tokenizer_json(json, "/nonexistent/tokenizer.json");
  EXPECT_EQ(check_cases(*tokenizer, read_xz(vectors)), 1500u);
}

INSTANTIATE_TEST_SUITE_P(Large, Published, testing::ValuesIn(test_data_names("tokenizer-vectors/hf", ".jsonl.xz")),
                         [](const auto& test) { return test_name(test.param); });

class VocabGguf : public testing::TestWithParam<std::string> {};

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  size_t pos = 0;
  for (size_t end = text.find(by); end != text.npos; end = text.find(by, pos)) {
    parts.push_back(text.substr(pos, end - pos));
    pos = end + by.size();
  }
  parts.push_back(text.substr(pos));
  return parts;
}

TEST_P(VocabGguf, EqualsItsVectors) {
  const std::string name = GetParam() + ".gguf";
  const auto tokenizer = Tokenizer::load(test_data("vocab-gguf/" + name));
  const std::string base = "tokenizer-vectors/llama.cpp/" + name;
  const std::vector<std::string> texts = split(read_text_file(test_data(base + ".inp")), "\n__ggml_vocab_test__\n");
  const std::vector<std::string> lines = split(read_text_file(test_data(base + ".out")), "\n");
  ASSERT_GE(lines.size(), texts.size());
  EXPECT_EQ(texts.size(), 47u);
  for (size_t i = 0; i < texts.size(); i++) {
    std::istringstream stream(lines[i]);
    std::vector<Token> expected;
    for (Token token = 0; stream >> token;) expected.push_back(token);
    EXPECT_EQ(tokenizer->encode(texts[i]), expected) << "text: " << texts[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, VocabGguf, testing::ValuesIn(test_data_names("vocab-gguf", ".gguf")),
                         [](const auto& test) { return test_name(test.param); });

// A model's file by the end of its name, anywhere below INGOT_MODELS.
std::string find_model(const std::string& name) {
  const char* root = std::getenv("INGOT_MODELS");
  if (root == nullptr || !exists(root)) return {};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().filename().string() == name) return entry.path().string();
  }
  return {};
}

void check_golden(const std::string& golden, const std::string& model) {
  const std::string file = find_model(model);
  if (file.empty()) GTEST_SKIP() << "no " << model << " below INGOT_MODELS";
  const auto tokenizer = Tokenizer::load(file);
  const Json json = read_json_file(test_data("golden/" + golden));
  for (const Json& item : json.at("cases").as_array()) {
    const std::string prompt = get_string(item.as_object(), "prompt");
    EXPECT_EQ(tokenizer->encode(prompt, {.add_special = true}), tokens_of(item.at("ids"))) << prompt;
  }
  const std::string text = read_text_file(test_data("text/wiki.test.raw")).substr(0, 100000);
  std::vector<Token> ids = tokenizer->encode(text.substr(0, text.rfind('\n') + 1), {.add_special = true});
  const std::vector<Token> first = tokens_of(json.at("perplexity").at("first_ids"));
  ids.resize(first.size());
  EXPECT_EQ(ids, first);
}

TEST(Golden, SmolLm2) { check_golden("smollm2.json", "SmolLM2-135M-Instruct.Q4_1.gguf"); }
TEST(Golden, Gemma3) { check_golden("gemma3-270m.json", "gemma-3-270m-q4_k_m.gguf"); }

// The same texts through a model's folder and through another file of its vocabulary; the larger model where it is
// here.
TEST(Golden, Stories) {
  const std::map<std::string, std::string> others = {{"stories260K", "stories260K.gguf"},
                                                     {"stories15M", "tokenizer.bin"}};
  const Json json = read_json_file(test_data("golden/llama2c_greedy.json"));
  for (const Json& item : json.as_array()) {
    const std::string text = get_string(item.as_object(), "text");
    const std::string model = get_string(item.as_object(), "model"), folder = test_data("models/" + model);
    if (!exists(folder) && model != "stories260K") continue;
    const auto by_folder = Tokenizer::load(folder), by_file = Tokenizer::load(folder + "/" + others.at(model));
    const Tokenizer &a = *by_folder, &b = *by_file;
    const std::vector<Token> ids = a.encode(text, {.add_special = true});
    EXPECT_EQ(ids, b.encode(text, {.add_special = true}));
    EXPECT_EQ(ids.front(), *a.bos());
    EXPECT_EQ(a.decode(ids), text);
    EXPECT_EQ(b.decode(ids), text);
  }
}

}  // namespace
}  // namespace ingot
