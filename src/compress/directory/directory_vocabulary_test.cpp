// Vocabularies of GGUF files as tokenizer.json has them: the same ids on every text.
#include "compress/directory/directory_vocabulary.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/data_test_support.h"
#include "base/error.h"
#include "files/gguf/gguf_writer.h"
#include "text/tokenizer.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

class VocabularyOfGguf : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "ingot_vocabulary_" + std::to_string(getpid());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Tokenizer> written(const Gguf& gguf) {
    for (const auto& [name, content] : directory_vocabulary(gguf, 512).files)
      std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
    return Tokenizer::load(folder_);
  }

  // A vocabulary file with other metadata.
  std::string changed(const Gguf& gguf, const std::string& key, const std::string& value) {
    GgufWriter writer;
    for (const GgufEntry& entry : gguf.metadata()) {
      if (entry.key != key) writer.set(entry.key, entry.value);
    }
    if (!value.empty()) writer.set(key, value);
    writer.write(folder_ + "/changed.gguf");
    try {
      directory_vocabulary(Gguf::open(folder_ + "/changed.gguf"), 512);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::string folder_;
};

std::vector<std::string> texts_of(const std::string& vectors) {
  std::vector<std::string> texts = {"<s>a</s> b", "<|endoftext|>",
                                    "<|im_start|>user\n  1234567 Ωmega\r\n\t\u3000🙂"};
  if (!fs::exists(vectors)) return texts;
  const std::string all = read_text_file(vectors), by = "\n__ggml_vocab_test__\n";
  for (size_t at = 0, end = 0; end != all.npos; at = end + by.size()) {
    end = all.find(by, at);
    texts.push_back(all.substr(at, end == all.npos ? end : end - at));
  }
  return texts;
}

TEST_F(VocabularyOfGguf, IdsAreTheSame) {
  size_t read = 0;
  std::vector<std::string> files = {committed_data("models/stories260K/stories260K.gguf")};
  for (const std::string& name : test_data_names("vocab-gguf", ".gguf"))
    files.push_back(test_data("vocab-gguf/" + name + ".gguf"));
  for (const std::string& file : files) {
    const Gguf gguf = Gguf::open(file);
    const std::string model = gguf.get_string("tokenizer.ggml.model");
    if (model != "llama" && model != "gpt2") continue;
    const auto want = Tokenizer::from_gguf(gguf), got = written(gguf);
    EXPECT_EQ(got->bos(), want->bos()) << file;
    EXPECT_EQ(got->eos(), want->eos()) << file;
    EXPECT_EQ(got->end_tokens(), want->end_tokens()) << file;
    const std::string vectors = "tokenizer-vectors/llama.cpp/" + fs::path(file).filename().string() + ".inp";
    std::vector<std::string> texts = texts_of(test_data(vectors));
    for (const std::string& text : texts_of(test_data("tokenizer-vectors/llama.cpp/ggml-vocab-gpt-2.gguf.inp")))
      texts.push_back(text);
    for (const std::string& text : texts) {
      const EncodeOptions all{.add_special = true, .parse_special = true};
      const std::vector<Token> ids = want->encode(text, all);
      EXPECT_EQ(got->encode(text), want->encode(text)) << file << ": " << text;
      EXPECT_EQ(got->encode(text, all), ids) << file << ": " << text;
      EXPECT_EQ(got->decode(ids, true), want->decode(ids, true)) << file << ": " << text;
      ++read;
    }
  }
  EXPECT_GE(read, 12u);
}

TEST_F(VocabularyOfGguf, WhatIsNoBpeIsRefusedByName) {
  const Gguf gguf = Gguf::open(committed_data("models/stories260K/stories260K.gguf"));
  EXPECT_NE(changed(gguf, "tokenizer.ggml.model", "").find("has no vocabulary"), std::string::npos);
  EXPECT_NE(changed(gguf, "tokenizer.ggml.model", "t5").find("'t5', which is no BPE"), std::string::npos);
  EXPECT_EQ(changed(gguf, "tokenizer.ggml.model", "no_vocab"), "");
  const Gguf bytes = Gguf::open(committed_data("vocab-gguf/ggml-vocab-gpt-2.gguf"));
  EXPECT_NE(changed(bytes, "tokenizer.ggml.pre", "gemma4").find("'gemma4', which is no BPE"), std::string::npos);
}

}  // namespace
}  // namespace ingot
