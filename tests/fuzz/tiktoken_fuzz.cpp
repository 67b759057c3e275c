// Fuzz target: *.tiktoken, whose kind a configuration beside it names, and tekken.json. An input that begins with '{'
// is one of the latter, in which "BYTES" stands for the first 256 entries of vocab. Before a tiktoken input's first
// line every byte has a token too. So few bytes make a vocabulary. coverage: src/text/load/tiktoken_file.cpp
// src/text/load/tekken_file.cpp src/text/load/ranked_vocab.cpp
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "text/load/tokenizer_load.h"
#include "tokenizer_fuzz.h"

namespace {

std::string folder_of(const char* name, const char* config) {
  const std::string path =
      fmt::format("{}/ingot_tiktoken_fuzz_{}_{}", std::filesystem::temp_directory_path().string(), getpid(), name);
  std::filesystem::create_directories(path);
  std::ofstream(path + "/tokenizer_config.json") << config;
  return path;
}

std::string all_bytes() {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string lines;
  for (size_t i = 0; i < 256; i++) lines += fmt::format("{}{}== {}\n", kDigits[i >> 2], kDigits[(i & 3) << 4], i);
  return lines;
}

std::string with_bytes(std::string text) {
  static constexpr std::string_view kMark = "\"BYTES\"";
  static const std::string entries = [] {
    std::string json;
    const std::string lines = all_bytes();
    for (size_t i = 0, pos = 0; i < 256; i++, pos = lines.find('\n', pos) + 1) {
      json += fmt::format("{}{{\"rank\":{},\"token_bytes\":\"{}\"}}", i == 0 ? "" : ",", i, lines.substr(pos, 4));
    }
    return json;
  }();
  if (const size_t at = text.find(kMark); at != text.npos) text.replace(at, kMark.size(), entries);
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string qwen = folder_of("qwen", R"({"tokenizer_class":"QWenTokenizer","eos_token":"<e>",
      "added_tokens_decoder":{"900":{"content":"<e>","special":true}}})");
  static const std::string bytes = all_bytes();
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('{')) {
    ingot::exercise([&] { return ingot::parse_tekken(with_bytes(text), "/nonexistent/tekken.json"); });
    return 0;
  }
  ingot::looks_like_tiktoken(text);
  ingot::exercise([&] { return ingot::parse_tiktoken(text, "/nonexistent/cl100k_base.tiktoken"); });
  ingot::exercise([&] { return ingot::parse_tiktoken(text, "/nonexistent/other.tiktoken"); });
  ingot::exercise([&] { return ingot::parse_tiktoken(bytes + text, qwen + "/tokenizer.model"); });
  return 0;
}
