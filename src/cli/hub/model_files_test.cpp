#include "cli/hub/model_files.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ingot {
namespace {

using Files = std::vector<std::string>;

TEST(ModelFiles, SafetensorsWithWhatTheyNeed) {
  const Files files = {"README.md",
                       "config.json",
                       "model-00001-of-00002.safetensors",
                       "tokenizer.json",
                       "pytorch_model.bin",
                       "model-00002-of-00002.safetensors",
                       "original/params.json",
                       "consolidated.safetensors",
                       "onnx/model.onnx",
                       "qwen.tiktoken",
                       "model.safetensors.index.json",
                       "m.gguf"};
  const Files expected = {"config.json",
                          "tokenizer.json",
                          "qwen.tiktoken",
                          "model.safetensors.index.json",
                          "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors"};
  EXPECT_EQ(choose_files("a/b", files, ""), expected);
  EXPECT_EQ(choose_files("a/b", {"weights.safetensors", "config.json"}, ""),
            (Files{"config.json", "weights.safetensors"}));
}

TEST(ModelFiles, OneGgufOrAllItsParts) {
  const Files files = {"m-Q4_K_M.gguf", "m-Q8_0.gguf", "f16/m-F16-00001-of-00002.gguf", "f16/m-F16-00002-of-00002.gguf",
                       "mmproj-m.gguf"};
  EXPECT_EQ(choose_files("a/b", files, "q4_k_m"), Files{"m-Q4_K_M.gguf"});
  EXPECT_EQ(choose_files("a/b", files, "*Q8*"), Files{"m-Q8_0.gguf"});
  EXPECT_EQ(choose_files("a/b", files, "m-f16-*-of-*.gguf"), (Files{files[2], files[3]}));
  EXPECT_EQ(choose_files("a/b", {"only.gguf", "mmproj.gguf"}, ""), Files{"only.gguf"});
  EXPECT_THROW(choose_files("a/b", files, ""), Error);
  EXPECT_THROW(choose_files("a/b", files, "m-"), Error);
  EXPECT_THROW(choose_files("a/b", files, "q2_k"), Error);
  EXPECT_THROW(choose_files("a/b", {"README.md"}, ""), Error);
  EXPECT_THROW(choose_files("a/b", {}, ""), Error);
}

TEST(ModelFiles, PartsOfDifferentSplitsDoNotMix) {
  EXPECT_THROW(choose_files("a/b", {"m-00001-of-00002.gguf", "m-00001-of-00003.gguf"}, ""), Error);
}

TEST(ModelFiles, UnsafeNamesAreRefused) {
  for (const char* file : {"a.json", "a/b.json", "a..b", ".gitattributes", "a b.gguf", "m\xc3\xa9.gguf"}) {
    EXPECT_NO_THROW(check_repo_file("a/b", file)) << file;
  }
  for (const char* file : {"", "/a", "a/", "../a", "a/../b", "a/..", "./a", "a//b", "a\\b", "a\nb", "a\x7f"}) {
    EXPECT_THROW(check_repo_file("a/b", file), Error) << file;
  }
  EXPECT_THROW(check_repo_file("a/b", std::string(1025, 'a')), Error);
  EXPECT_THROW(check_repo_file("a/b", std::string("a\0b", 3)), Error);
}

}  // namespace
}  // namespace ingot
