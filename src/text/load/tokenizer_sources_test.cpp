// Tokenizers that do not come as a tokenizer.json: ids equal to those of the libraries that defined the containers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "files/json.h"
#include "text/load/ranked_vocab.h"
#include "text/load/tokenizer_load.h"
#include "text/tokenizer.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

TEST(Base64, Decodes) {
  const auto decode = [](std::string_view text) {
    std::string out;
    return append_base64(text, out) ? out : std::string("?");
  };
  EXPECT_EQ(decode(""), "");
  EXPECT_EQ(decode("YQ=="), "a");
  EXPECT_EQ(decode("YWI="), "ab");
  EXPECT_EQ(decode("YWJj"), "abc");
  EXPECT_EQ(decode("/+A="), "\xFF\xE0");
  for (const char* bad : {"Y", "YQ", "YQ=", "=", "====", "Y===", "YQ==YQ==", "YW=j", "YQ= ", "Y Q=", "YQ\n=", "*A=="}) {
    EXPECT_EQ(decode(bad), "?") << bad;
  }
}

// Merging by rank as it is defined: of all neighbours whose bytes together are a token the lowest, the leftmost first.
std::vector<Token> merge_plainly(const std::map<std::string, Token>& ranks, const std::string& word) {
  if (ranks.contains(word)) return {ranks.at(word)};
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    size_t best = parts.size();
    for (size_t i = 0; i + 1 < parts.size(); i++) {
      const auto found = ranks.find(parts[i] + parts[i + 1]);
      if (found == ranks.end()) continue;
      if (best == parts.size() || found->second < ranks.at(parts[best] + parts[best + 1])) best = i;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<Token> out;
  for (const std::string& part : parts) out.push_back(ranks.at(part));
  return out;
}

// Also where tokens have lower ranks than their parts, which no trainer makes.
TEST(RankedVocab, MergesByRank) {
  std::mt19937 rng(3);
  for (int round = 0; round < 200; round++) {
    std::vector<std::string> ranked;
    std::map<std::string, Token> ranks;
    for (int i = 0; i < 256; i++) ranked.emplace_back(1, static_cast<char>(i));
    for (int i = 0; i < 30; i++) {
      std::string token;
      for (size_t n = 2 + rng() % 4; token.size() < n;) token.push_back("abc"[rng() % (round % 2 == 0 ? 2 : 3)]);
      if (std::find(ranked.begin(), ranked.end(), token) == ranked.end()) ranked.push_back(token);
    }
    for (size_t i = 0; i < ranked.size(); i++) ranks[ranked[i]] = static_cast<Token>(i);
    TokenizerParts parts;
    build_ranked(ranked, 0, {}, "a test", parts);
    const Tokenizer tokenizer(std::move(parts));
    for (int i = 0; i < 50; i++) {
      std::string word;
      for (size_t n = 1 + rng() % 40; word.size() < n;) word.push_back("abc"[rng() % 3]);
      ASSERT_EQ(tokenizer.encode(word), merge_plainly(ranks, word)) << word;
    }
  }
}

TEST(Tiktoken, EqualsTheLibrary) {
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  for (const std::string& name : test_data_names("tokenizers", ".tiktoken.xz")) {
    const std::string text = read_xz(test_data("tokenizers/" + name + ".tiktoken.xz"));
    if (text.empty()) GTEST_SKIP() << "no xz";
    tokenizers[name] = parse_tiktoken(text, "/nonexistent/" + name + ".tiktoken");
    EXPECT_NE(error_from([&] { parse_tiktoken(text, "/nonexistent/my_base.tiktoken"); }).find("known are"),
              std::string::npos);
    const std::string cut = text.substr(0, text.rfind('\n', text.size() - 2) + 1);
    EXPECT_NE(error_from([&] { parse_tiktoken(cut, "/nonexistent/" + name + ".tiktoken"); }).find("cut short"),
              std::string::npos);
  }
  for (const Json& line : json_lines(read_text_file(fixture("tiktoken.jsonl")))) {
    const JsonObject& object = line.as_object();
    const auto found = tokenizers.find(get_string(object, "name"));
    if (found == tokenizers.end()) continue;  // its file is not here
    const Tokenizer& tokenizer = *found->second;
    const std::string text = get_string(object, "text");
    const std::vector<Token> ids = tokens_of(object.at("ids"));
    ASSERT_EQ(tokenizer.encode(text, {.parse_special = true}), ids) << text;
    ASSERT_EQ(tokenizer.decode(ids, true), text);
  }
  EXPECT_EQ(tokenizers.at("cl100k_base")->vocab_size(), 100277);
  if (tokenizers.contains("o200k_base")) {
    EXPECT_EQ(tokenizers["o200k_base"]->token_id("<|endofprompt|>"), 200018);
  }
}

TEST(Tekken, EqualsTheLibrary) {
  const auto tokenizer = Tokenizer::load(fixture("tekken_small.json"));
  size_t n = 0;
  for (const Json& line : json_lines(read_text_file(fixture("tekken_small.jsonl")))) {
    const JsonObject& object = line.as_object();
    const std::string text = get_string(object, "text");
    const std::vector<Token> ids = tokens_of(object.at("ids"));
    ASSERT_EQ(tokenizer->encode(text), ids) << text;
    ASSERT_EQ(tokenizer->encode(text, {.add_special = true}), tokens_of(object.at("with_special"))) << text;
    ASSERT_EQ(tokenizer->decode(ids), text);
    n++;
  }
  EXPECT_EQ(n, 200u);
  EXPECT_EQ(tokenizer->encode("[INST]<SPECIAL_23>", {.parse_special = true}), (std::vector<Token>{3, 23}));
}

class SentencePieceFile : public testing::TestWithParam<const char*> {};

TEST_P(SentencePieceFile, EqualsTheLibrary) {
  const std::string name = GetParam();
  const auto tokenizer = Tokenizer::load(fixture(name + ".model"));
  size_t n = 0;
  for (const Json& line : json_lines(read_text_file(fixture(name + ".jsonl")))) {
    const JsonObject& object = line.as_object();
    const std::string text = get_string(object, "text");
    ASSERT_EQ(tokenizer->encode(text), tokens_of(object.at("ids"))) << text;
    n++;
  }
  EXPECT_EQ(n, 151u);
}

INSTANTIATE_TEST_SUITE_P(All, SentencePieceFile, testing::Values("sp_bpe", "sp_unigram", "sp_suffix", "sp_char"),
                         [](const auto& test) { return std::string(test.param); });

// A directory under the temporary one that goes away at the end.
class Folder {
 public:
  Folder() : path_(testing::TempDir() + "ingot_sources_test") {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(path_ + "/" + name) << text; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(OldFiles, VocabJsonAndMerges) {
  const std::string file = test_data("tokenizers/gpt2.tokenizer.json.xz");
  const std::string vectors = test_data("tokenizer-vectors/hf/gpt2.jsonl.xz");
  const std::string text = read_xz(file);
  if (text.empty()) GTEST_SKIP() << "no xz";
  const Json json = parse_json(text, file);
  const JsonObject& model = json.as_object().at("model").as_object();
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : model.at("merges").as_array()) {
    merges += merge.is_string()
                  ? std::string(merge.as_string())
                  : std::string(merge.as_array()[0].as_string()) + " " + std::string(merge.as_array()[1].as_string());
    merges += "\n";
  }
  Folder folder;
  folder.write("vocab.json", to_json(model.at("vocab")));
  folder.write("merges.txt", merges);
  EXPECT_EQ(check_cases(*Tokenizer::load(folder.path()), read_xz(vectors)), 1500u);
}

TEST(OldFiles, NothingThere) {
  Folder folder;
  EXPECT_NE(error_from([&] { Tokenizer::load(folder.path()); }).find("has no tokenizer.json"), std::string::npos);
  folder.write("vocab.txt", "[PAD]\n[UNK]\n");
  EXPECT_NE(error_from([&] { Tokenizer::load(folder.path()); }).find("[SEP]"), std::string::npos);
}

}  // namespace
}  // namespace ingot
