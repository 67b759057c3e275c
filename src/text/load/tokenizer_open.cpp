// Tokenizer::load: which of the containers a path is.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "base/mmap.h"
#include "files/gguf/gguf.h"
#include "files/json.h"
#include "text/load/tokenizer_load.h"

namespace ingot {

namespace {

namespace fs = std::filesystem;

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string beside(const std::string& directory, std::string_view name) {
  return (fs::path(directory) / name).string();
}

std::unique_ptr<Tokenizer> load_wordpiece(const std::string& directory) {
  const std::string path = beside(directory, "vocab.txt");
  const TokenizerConfig config = read_tokenizer_config(directory);
  return parse_tokenizer_json(wordpiece_as_json(read_text_file(path), config, path), path);
}

std::unique_ptr<Tokenizer> load_gpt2(const std::string& directory) {
  const std::string path = beside(directory, "vocab.json");
  const TokenizerConfig config = read_tokenizer_config(directory);
  const std::string merges = read_text_file(beside(directory, "merges.txt"));
  return parse_tokenizer_json(gpt2_as_json(read_text_file(path), merges, config, path), path);
}

// Of several containers the one that says most comes first.
std::unique_ptr<Tokenizer> load_directory(const std::string& directory) {
  for (const char* name : {"tokenizer.json", "tekken.json", "tokenizer.model", "tiktoken.model"}) {
    if (is_file(beside(directory, name))) return Tokenizer::load(beside(directory, name));
  }
  std::vector<std::string> files;
  int ignored = 0;
  for (const std::string& name : names_in(directory, ignored)) {
    const bool llama2c = name.starts_with("tok") && name.ends_with(".bin");
    if (llama2c || name.ends_with(".tiktoken")) files.push_back((fs::path(directory) / name).string());
  }
  if (files.size() == 1) return Tokenizer::load(files[0]);
  if (is_file(beside(directory, "vocab.json")) && is_file(beside(directory, "merges.txt"))) return load_gpt2(directory);
  if (is_file(beside(directory, "vocab.txt"))) return load_wordpiece(directory);
  throw Error(
      "[tokenizer] '{}' has no tokenizer.json, tekken.json, tokenizer.model, *.tiktoken, tok*.bin, vocab.json with "
      "merges.txt or vocab.txt",
      directory);
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::load(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw Error("[tokenizer] '{}' does not exist", path);
  if (fs::is_directory(path, error)) return load_directory(path);
  const std::string name = fs::path(path).filename().string();
  const std::string parent = fs::path(path).parent_path().string();
  if (name == "vocab.txt") return load_wordpiece(parent.empty() ? "." : parent);
  if (name == "vocab.json") return load_gpt2(parent.empty() ? "." : parent);
  const MappedFile file = MappedFile::open(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (bytes.starts_with("GGUF")) return from_gguf(Gguf::open(path));
  if (name.ends_with(".tiktoken")) return parse_tiktoken(bytes, path);
  if (name.find(".model") != name.npos) {
    return looks_like_tiktoken(bytes) ? parse_tiktoken(bytes, path) : parse_sentencepiece_model(bytes, path);
  }
  const size_t first = bytes.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first != bytes.npos && bytes[first] == '{') {
    return name.find("tekken") != name.npos ? parse_tekken(bytes, path) : load_tokenizer_json(path);
  }
  if (path.ends_with(".bin")) return parse_llama2c(bytes, path);
  throw Error(
      "[tokenizer] '{}' is no GGUF file, tokenizer.json, tekken.json, SentencePiece .model, .tiktoken or llama2.c .bin",
      path);
}

}  // namespace ingot
