// Mistral's tekken.json: ranked byte tokens behind a block of special ones, and the pattern that splits text.
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/load/ranked_vocab.h"
#include "text/load/tokenizer_load.h"

namespace ingot {

namespace {

// What files up to version 7 mean where they list no special tokens.
constexpr std::array<std::string_view, 20> kOldSpecial = {"<unk>",
                                                          "<s>",
                                                          "</s>",
                                                          "[INST]",
                                                          "[/INST]",
                                                          "[AVAILABLE_TOOLS]",
                                                          "[/AVAILABLE_TOOLS]",
                                                          "[TOOL_RESULTS]",
                                                          "[/TOOL_RESULTS]",
                                                          "[TOOL_CALLS]",
                                                          "[IMG]",
                                                          "<pad>",
                                                          "[IMG_BREAK]",
                                                          "[IMG_END]",
                                                          "[PREFIX]",
                                                          "[MIDDLE]",
                                                          "[SUFFIX]",
                                                          "[SYSTEM_PROMPT]",
                                                          "[/SYSTEM_PROMPT]",
                                                          "[TOOL_CONTENT]"};

int version_of(const JsonObject& config, const std::string& path) {
  const std::string version = get_string(config, "version");
  int number = 0;
  const char* end = version.data() + version.size();
  const bool valid = version.size() > 1 && version[0] == 'v' &&
                     std::from_chars(version.data() + 1, end, number).ec == std::errc() && number > 0;
  if (!valid) throw Error("[tokenizer] {}: the version '{}' is not known", path, utf8_printable(version));
  return number;
}

std::map<Token, AddedToken> read_special(const JsonObject& root, const JsonObject& config, int64_t count,
                                         const std::string& path) {
  std::map<Token, AddedToken> special;
  std::map<std::string, Token, std::less<>> ids;
  const auto add = [&](Token id, std::string name) {
    if (name.empty() || !ids.emplace(name, id).second || special.contains(id)) {
      throw Error("[tokenizer] {}: the special token {} ('{}') is empty or there twice", path, id,
                  utf8_printable(name));
    }
    special[id] = {.id = id, .content = std::move(name), .special = true};
  };
  if (const JsonArray* array = find_array(root, "special_tokens")) {
    for (const Json& json : *array) {
      const JsonObject& object = as_object(json, "[tokenizer] an entry of special_tokens");
      const int64_t rank =
          as_int(object.contains("rank") ? object.at("rank") : Json(), "[tokenizer] rank", 0, count - 1);
      add(static_cast<Token>(rank), get_string(object, "token_str"));
    }
  } else if (version_of(config, path) > 7) {
    throw Error("[tokenizer] {} has no special_tokens", path);
  } else {
    for (size_t i = 0; i < kOldSpecial.size() && static_cast<int64_t>(i) < count; i++) {
      add(static_cast<Token>(i), std::string(kOldSpecial[i]));
    }
  }
  for (Token id = 0; id < count; id++) {
    if (!special.contains(id)) add(id, fmt::format("<SPECIAL_{}>", id));
  }
  return special;
}

std::vector<std::string> read_ranked(const JsonObject& root, size_t count, const std::string& path) {
  const JsonArray* vocab = find_array(root, "vocab");
  if (vocab == nullptr || vocab->size() < count) {
    throw Error("[tokenizer] {}: vocab has {} tokens, {} are asked for", path, vocab == nullptr ? 0 : vocab->size(),
                count);
  }
  std::vector<std::string> ranked(count);
  for (size_t i = 0; i < count; i++) {
    const JsonObject& object = as_object((*vocab)[i], "[tokenizer] an entry of vocab");
    const Json* bytes = find(object, "token_bytes");
    const std::string_view text = bytes == nullptr ? "" : as_string(*bytes, "[tokenizer] token_bytes");
    if (get_int(object, "rank") != static_cast<int64_t>(i) || text.empty() || !append_base64(text, ranked[i])) {
      throw Error("[tokenizer] {}: entry {} of vocab is no base64 token of rank {}", path, i, i);
    }
  }
  return ranked;
}

}  // namespace

std::unique_ptr<Tokenizer> parse_tekken(std::string_view text, const std::string& path) {
  const Json json = parse_json(text, path);
  const JsonObject& root = as_object(json, path);
  const JsonObject* config = find_object(root, "config");
  if (config == nullptr) throw Error("[tokenizer] {} has no config", path);
  const auto limit = static_cast<int64_t>(kMaxTokens);
  const int64_t special_count = get_int(*config, "default_num_special_tokens", -1, 0, 65536);
  const int64_t size = get_int(*config, "default_vocab_size", -1, 0, limit);
  if (special_count < 3 || size <= special_count) {
    throw Error("[tokenizer] {}: a vocabulary of {} tokens, {} of them special", path, size, special_count);
  }
  TokenizerParts parts;
  parts.kind = "byte-level BPE, tekken.json";
  const std::string pattern = get_string(*config, "pattern");
  const Scanner scanner = find_scanner(pattern);
  if (scanner == nullptr) throw Error("[tokenizer] no scanner for the pattern {}", utf8_printable(pattern, 400));
  parts.pre_tokenizer.add({.scanner = scanner});
  const auto special = read_special(root, *config, special_count, path);
  build_ranked(read_ranked(root, static_cast<size_t>(size - special_count), path), static_cast<Token>(special_count),
               special, path, parts);
  const auto named = [&](std::string_view name) -> std::optional<Token> {
    const AddedToken* token = parts.added.find(name);
    return token == nullptr ? std::nullopt : std::optional<Token>(token->id);
  };
  parts.unknown = named("<unk>");
  parts.bos = named("<s>");
  parts.eos = named("</s>");
  parts.pad = named("<pad>");
  if (parts.bos) parts.prefix.push_back(*parts.bos);
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace ingot
