// Vocabularies inside GGUF files that no committed file has: WordPiece, and merges over characters.
#include <gtest/gtest.h>

#include "files/gguf/gguf.h"
#include "files/gguf/gguf_writer.h"
#include "text/tokenizer.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

struct Spec {
  std::string model;
  std::string pre = {};
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges = {};
};

std::unique_ptr<Tokenizer> load(const Spec& spec, const std::function<void(GgufWriter&)>& more = {}) {
  GgufWriter writer;
  writer.set("general.architecture", "test");
  writer.set("tokenizer.ggml.model", spec.model);
  if (!spec.pre.empty()) writer.set("tokenizer.ggml.pre", spec.pre);
  writer.set_array("tokenizer.ggml.tokens", spec.tokens);
  writer.set_array("tokenizer.ggml.token_type", std::span<const int32_t>(spec.types));
  if (spec.model != "bert") writer.set_array("tokenizer.ggml.merges", spec.merges);
  if (more) more(writer);
  return Tokenizer::from_gguf(Gguf::parse(writer.bytes()));
}

const Spec kBert = {
    .model = "bert",
    .tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[unused0]", "▁the", "▁cafe", "s", "▁,", "▁中", "▁É"},
    .types = {3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1}};

TEST(GgufBert, WordsAndFrame) {
  const auto tokenizer = load(kBert);
  EXPECT_EQ(tokenizer->encode("The  CAFÉs,中x"), (std::vector<Token>{5, 6, 7, 8, 9, 1}));
  EXPECT_EQ(tokenizer->encode("the", {.add_special = true}), (std::vector<Token>{2, 5, 3}));
  EXPECT_EQ(tokenizer->encode("the[SEP]the", {.parse_special = true}), (std::vector<Token>{5, 3, 5}));
  EXPECT_EQ(tokenizer->encode("[unused0]"), (std::vector<Token>{1, 1, 1}));
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{5, 6, 7, 8}), "the cafes,");
  EXPECT_EQ(tokenizer->bos(), 2);
  EXPECT_TRUE(tokenizer->adds_bos());
}

TEST(GgufBert, FollowsTheFile) {
  const auto cased = load(kBert, [](GgufWriter& w) { w.set("tokenizer.ggml.normalizer.lowercase", false); });
  EXPECT_EQ(cased->encode("the The É"), (std::vector<Token>{5, 1, 10}));
  const auto stripped = load(kBert, [](GgufWriter& w) {
    w.set("tokenizer.ggml.normalizer.lowercase", false);
    w.set("tokenizer.ggml.normalizer.strip_accents", true);
  });
  EXPECT_EQ(stripped->encode("café É"), (std::vector<Token>{6, 1}));
  Spec none = kBert;
  none.tokens[1] = "[OTHER]";
  EXPECT_NE(error_from([&] { load(none); }).find("no token for unknown words"), std::string::npos);
}

TEST(GgufCharacters, Underlined) {
  // "\n\n" is matched as a whole; the merge that makes it is in the list all the same.
  const Spec spec = {.model = "gemma4",
                     .tokens = {"<pad>", "<bos>", "▁", "a", "b", "▁a", "ab", "\n", "\n\n", "<0xC3>", "<0xA9>"},
                     .types = {3, 3, 1, 1, 1, 1, 1, 1, 4, 6, 6},
                     .merges = {"\n \n", "a b", "▁ a"}};
  const auto tokenizer = load(spec, [](GgufWriter& w) { w.set("tokenizer.ggml.bos_token_id", uint32_t{1}); });
  EXPECT_EQ(tokenizer->encode("a ab a"), (std::vector<Token>{3, 2, 6, 5}));
  EXPECT_EQ(tokenizer->encode("a\n\n\nb", {.add_special = true}), (std::vector<Token>{1, 3, 8, 7, 4}));
  EXPECT_EQ(tokenizer->encode("é"), (std::vector<Token>{9, 10}));
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{3, 2, 6, 5, 9, 10}), "a ab aé");
}

TEST(GgufCharacters, Words) {
  const Spec spec = {.model = "whitespace",
                     .pre = "whitespace",
                     .tokens = {"<unk>", "a", "b", "ab", "中"},
                     .types = {2, 1, 1, 1, 1},
                     .merges = {"a b"}};
  const auto unknown = [](GgufWriter& w) { w.set("tokenizer.ggml.unknown_token_id", uint32_t{0}); };
  EXPECT_EQ(load(spec, unknown)->encode(" ab\n ba中\tAb"), (std::vector<Token>{3, 2, 1, 4, 0, 2}));
  const auto lower = load(spec, [](GgufWriter& w) { w.set("tokenizer.ggml.normalizer.lowercase", true); });
  EXPECT_EQ(lower->encode("AB x"), (std::vector<Token>{3}));
}

TEST(GgufMerges, NamesWhatItDoesNotKnow) {
  Spec spec = {.model = "gpt2", .pre = "gpt-3", .tokens = {"a", "b"}, .types = {1, 1}};
  EXPECT_NE(error_from([&] { load(spec); }).find("'gpt-3' is not known"), std::string::npos);
  spec.pre = "gemma4";
  spec.merges = {"ab"};
  EXPECT_NE(error_from([&] { load(spec); }).find("entry 0 ('ab') is no pair"), std::string::npos);
}

}  // namespace
}  // namespace ingot
