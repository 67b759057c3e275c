#include "compress/gguf_vocabulary.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "app/model_text.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/mmap.h"
#include "base/utf8.h"
#include "files/gguf/gguf_writer.h"
#include "files/json.h"
#include "files/protobuf.h"
#include "text/load/pre_names.h"
#include "text/split/patterns.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
constexpr std::string_view kUnderline = "\xE2\x96\x81";  // ▁

struct Entry {
  std::string text;
  int32_t type = kUnused;
  float score = -1000;
};

struct Vocabulary {
  std::string model;  // "gpt2" or "llama"
  std::string pre = "default";
  std::vector<Entry> entries;
  std::vector<std::string> merges;
  std::optional<bool> space_prefix;

  Entry& at(int64_t id) {
    if (id < 0 || id >= 1 << 24) throw Error("[quantize] the tokenizer has a token of id {}", id);
    if (static_cast<size_t>(id) >= entries.size()) entries.resize(static_cast<size_t>(id) + 1);
    return entries[static_cast<size_t>(id)];
  }
};

// The stages of a pre_tokenizer or normalizer, sequences taken apart.
void flatten(const Json* json, const char* list, std::vector<const JsonObject*>& out) {
  if (json == nullptr || !json->is_object()) return;
  const JsonObject& object = json->as_object();
  if (get_string(object, "type", "") != "Sequence") {
    out.push_back(&object);
  } else if (const JsonArray* parts = find_array(object, list)) {
    for (const Json& part : *parts) flatten(&part, list, out);
  }
}

std::vector<const JsonObject*> stages(const JsonObject& root, const char* key, const char* list) {
  std::vector<const JsonObject*> out;
  flatten(find(root, key), list, out);
  return out;
}

// The patterns by which a text of merges over bytes is split, one after the other; nothing where a stage is no pattern.
std::optional<std::vector<std::string>> split_patterns(const JsonObject& root) {
  std::vector<std::string> patterns;
  for (const JsonObject* stage : stages(root, "pre_tokenizer", "pretokenizers")) {
    const std::string type = get_string(*stage, "type", "");
    if (type == "ByteLevel") {
      if (get_bool(*stage, "use_regex", true)) patterns.emplace_back(kGpt2Pattern);
    } else if (type == "Digits") {
      patterns.emplace_back(get_bool(*stage, "individual_digits", false) ? kNumberPattern : kNumbersPattern);
    } else if (type == "Split") {
      const JsonObject* pattern = find_object(*stage, "pattern");
      const Json* regex = pattern != nullptr ? find(*pattern, "Regex") : nullptr;
      const std::string behavior = get_string(*stage, "behavior", "Isolated");
      const bool inverted = get_bool(*stage, "invert", false);
      // "Removed" of what does not match is the same where the pattern matches all of a text.
      if (regex == nullptr || !(behavior == "Isolated" || (behavior == "Removed" && inverted))) return {};
      patterns.emplace_back(as_string(*regex, "a pattern"));
    } else {
      return {};
    }
  }
  return patterns;
}

// GGUF names a way to split instead of describing it.
std::string pre_name(const JsonObject& root, bool ignore_merges) {
  const std::optional<std::vector<std::string>> patterns = split_patterns(root);
  const PreName* loose = nullptr;
  for (const PreName& name : all_pre_names()) {
    if (!patterns || name.alphabet != PreAlphabet::kBytes) continue;
    std::vector<std::string> known;
    for (const std::string_view pattern : name.patterns) {
      if (!pattern.empty()) known.emplace_back(pattern);
    }
    if (known != *patterns) continue;
    if (name.ignore_merges == ignore_merges) return std::string(name.name);
    if (loose == nullptr) loose = &name;
  }
  if (loose != nullptr) return std::string(loose->name);
  throw Error("[quantize] the tokenizer splits text in a way that GGUF has no name for");
}

void add_added_tokens(Vocabulary& vocabulary, const JsonObject& root) {
  const JsonArray* added = find_array(root, "added_tokens");
  if (added == nullptr) return;
  for (const Json& json : *added) {
    const JsonObject& token = as_object(json, "an entry of added_tokens");
    Entry& entry = vocabulary.at(get_int(token, "id"));
    entry.text = get_string(token, "content");
    if (entry.type == kUnknown || entry.type == kByte) continue;
    entry.type = get_bool(token, "special", false) ? kControl : kUserDefined;
  }
}

std::string merge_text(const Json& json) {
  if (json.is_string()) return std::string(json.as_string());
  const JsonArray& pair = as_array(json, "a merge");
  if (pair.size() != 2) throw Error("[quantize] a merge of the tokenizer has {} parts", pair.size());
  return fmt::format("{} {}", as_string(pair[0], "a merge"), as_string(pair[1], "a merge"));
}

bool is_byte_token(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">") &&
         text.substr(3, 2).find_first_not_of("0123456789ABCDEF") == std::string_view::npos;
}

// SentencePiece's BPE merges by the score of what comes out: the better the earlier its merge stands in the list.
void scores_from_merges(Vocabulary& vocabulary, const JsonArray& merges) {
  std::map<std::string, size_t, std::less<>> ids;
  for (size_t i = 0; i < vocabulary.entries.size(); ++i) ids.emplace(vocabulary.entries[i].text, i);
  const auto last = static_cast<float>(merges.size());
  for (Entry& entry : vocabulary.entries) entry.score = entry.type == kNormal ? -last - 1 : 0;
  for (size_t rank = merges.size(); rank-- > 0;) {
    std::string whole = merge_text(merges[rank]);
    whole.erase(whole.find(' ', 1), 1);
    if (const auto it = ids.find(whole); it != ids.end())
      vocabulary.entries[it->second].score = -static_cast<float>(rank);
  }
}

Vocabulary read_tokenizer_json(const std::string& path) {
  const Json json = read_json_file(path);
  const JsonObject& root = as_object(json, path);
  const JsonObject* model = find_object(root, "model");
  const JsonObject* vocab = model != nullptr ? find_object(*model, "vocab") : nullptr;
  const JsonArray* merges = model != nullptr ? find_array(*model, "merges") : nullptr;
  if (vocab == nullptr || merges == nullptr)
    throw Error("[quantize] tokenizer.json is no BPE model: GGUF has no place for it");
  Vocabulary result;
  const bool fallback = get_bool(*model, "byte_fallback", false);
  const std::string unknown = get_string(*model, "unk_token", "");
  for (const auto& member : *vocab) {
    Entry& entry = result.at(as_int(member.value(), "an id"));
    entry.text = std::string(member.key());
    entry.type = fallback && is_byte_token(entry.text) ? kByte : fallback && entry.text == unknown ? kUnknown : kNormal;
  }
  add_added_tokens(result, root);
  if (!fallback) {
    result.model = "gpt2";
    result.pre = pre_name(root, get_bool(*model, "ignore_merges", false));
    for (const Json& merge : *merges) result.merges.push_back(merge_text(merge));
    return result;
  }
  result.model = "llama";
  scores_from_merges(result, *merges);
  result.space_prefix = false;
  for (const JsonObject* stage : stages(root, "normalizer", "normalizers")) {
    if (get_string(*stage, "type", "") == "Prepend") result.space_prefix = true;
  }
  for (const JsonObject* stage : stages(root, "pre_tokenizer", "pretokenizers")) {
    if (get_string(*stage, "type", "") != "Metaspace") continue;
    const std::string scheme = get_string(*stage, "prepend_scheme", "always");
    result.space_prefix = get_bool(*stage, "add_prefix_space", true) && scheme != "never";
  }
  return result;
}

void add_configured_tokens(Vocabulary& vocabulary, const std::string& directory) {
  const std::string path = (fs::path(directory) / "tokenizer_config.json").string();
  std::error_code error;
  if (!fs::exists(path, error)) return;
  const Json json = read_json_file(path);
  const JsonObject* added = find_object(as_object(json, path), "added_tokens_decoder");
  if (added == nullptr) return;
  for (const auto& member : *added) {
    const JsonObject& token = as_object(member.value(), "an added token");
    Entry& entry = vocabulary.at(std::atoll(std::string(member.key()).c_str()));
    entry.text = get_string(token, "content");
    if (entry.type == kUnknown || entry.type == kByte) continue;
    entry.type = get_bool(token, "special", false) ? kControl : kUserDefined;
  }
}

Vocabulary read_sentencepiece(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  constexpr std::string_view kWhere = "SentencePiece";
  Vocabulary result;
  result.model = "llama";
  result.space_prefix = true;
  uint64_t kind = 1;
  for (ProtobufFields field(bytes, kWhere); field.next();) {
    if (field.is(1, 2)) {
      Entry& entry = result.entries.emplace_back(Entry{.text = {}, .type = kNormal, .score = 0});
      for (ProtobufFields piece(field.bytes(), kWhere); piece.next();) {
        if (piece.is(1, 2)) entry.text = piece.bytes();
        if (piece.is(2, 5)) entry.score = piece.as_float();
        if (piece.is(3, 0)) entry.type = static_cast<int32_t>(piece.value());
      }
    } else if (field.is(2, 2)) {
      for (ProtobufFields trainer(field.bytes(), kWhere); trainer.next();) {
        if (trainer.is(3, 0)) kind = trainer.value();
      }
    } else if (field.is(3, 2)) {
      for (ProtobufFields rules(field.bytes(), kWhere); rules.next();) {
        if (rules.is(3, 0)) result.space_prefix = rules.value() != 0;
      }
    }
  }
  if (kind != 2) throw Error("[quantize] tokenizer.model is no BPE model: llama.cpp would split texts another way");
  add_configured_tokens(result, fs::path(path).parent_path().string());
  return result;
}

// llama2.c's tok*.bin: the longest length, then a score, a length and the bytes of each token, spaces as they are.
Vocabulary read_llama2c(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const std::byte* at = file.bytes().data();
  const std::byte* const end = at + file.bytes().size();
  const auto take = [&](void* to, size_t n) {
    if (n > static_cast<size_t>(end - at)) throw Error("[quantize] {} is cut short", path);
    std::memcpy(to, at, n);
    at += n;
  };
  uint32_t longest = 0;
  take(&longest, 4);
  Vocabulary result;
  result.model = "llama";
  result.space_prefix = true;
  constexpr const char* kFirst[] = {"<unk>", "<s>", "</s>"};
  for (size_t i = 0; at < end; ++i) {
    Entry& entry = result.entries.emplace_back();
    uint32_t length = 0;
    take(&entry.score, 4);
    take(&length, 4);
    if (length > longest) throw Error("[quantize] {}: token {} has {} bytes", path, i, length);
    std::string text(length, ' ');
    take(text.data(), length);
    entry.type = i == 0 ? kUnknown : i < 3 ? kControl : i < 259 ? kByte : kNormal;
    if (i < 3) text = kFirst[i];
    for (size_t space = 0; i >= 259 && (space = text.find(' ', space)) != std::string::npos;)
      text.replace(space, 1, kUnderline);
    entry.text = text;
  }
  return result;
}

std::optional<Vocabulary> read_vocabulary(const std::string& directory) {
  std::error_code error;
  const auto path = [&](const char* name) { return (fs::path(directory) / name).string(); };
  // SentencePiece's own file has the scores that tokenizer.json leaves out; but it may lie beside one of another kind.
  const bool json = fs::exists(path("tokenizer.json"), error);
  if (json) {
    Vocabulary read = read_tokenizer_json(path("tokenizer.json"));
    if (read.model != "llama" || !fs::exists(path("tokenizer.model"), error)) return read;
    Vocabulary scored = read_sentencepiece(path("tokenizer.model"));
    for (size_t i = 0; i < std::min(read.entries.size(), scored.entries.size()); ++i) {
      if (read.entries[i].text == scored.entries[i].text) read.entries[i].score = scored.entries[i].score;
    }
    return read;
  }
  if (fs::exists(path("tokenizer.model"), error)) return read_sentencepiece(path("tokenizer.model"));
  int problem = 0;
  for (const std::string& name : names_in(directory, problem)) {
    if (name.starts_with("tok") && name.ends_with(".bin")) return read_llama2c(path(name.c_str()));
  }
  return {};
}

void write_entries(GgufWriter& writer, Vocabulary& vocabulary, int vocab) {
  if (static_cast<int>(vocabulary.entries.size()) > vocab) {
    // Tokens that the model has no row for are no tokens of it.
    vocabulary.entries.resize(static_cast<size_t>(vocab));
  }
  vocabulary.at(vocab - 1);
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (size_t i = 0; i < vocabulary.entries.size(); ++i) {
    const Entry& entry = vocabulary.entries[i];
    const bool absent = entry.type == kUnused && entry.text.empty();
    tokens.push_back(absent ? fmt::format("[PAD{}]", i) : entry.text);
    scores.push_back(entry.score);
    types.push_back(entry.type);
  }
  writer.set("tokenizer.ggml.model", vocabulary.model);
  writer.set("tokenizer.ggml.pre", vocabulary.pre);
  writer.set_array("tokenizer.ggml.tokens", tokens);
  if (vocabulary.model == "llama") writer.set_array("tokenizer.ggml.scores", std::span<const float>(scores));
  writer.set_array("tokenizer.ggml.token_type", std::span<const int32_t>(types));
  if (vocabulary.model == "gpt2") writer.set_array("tokenizer.ggml.merges", vocabulary.merges);
  if (vocabulary.space_prefix) writer.set("tokenizer.ggml.add_space_prefix", *vocabulary.space_prefix);
}

void write_special(GgufWriter& writer, const ModelText& text, int vocab) {
  const Tokenizer& tokenizer = *text.tokenizer;
  const auto id = [&](const char* key, std::optional<Token> token) {
    if (token && *token < vocab)
      writer.set(fmt::format("tokenizer.ggml.{}_token_id", key), static_cast<uint32_t>(*token));
  };
  id("bos", tokenizer.bos());
  id("eos", tokenizer.eos());
  id("unknown", tokenizer.unknown());
  id("padding", tokenizer.pad());
  writer.set("tokenizer.ggml.add_bos_token", tokenizer.adds_bos());
  writer.set("tokenizer.ggml.add_eos_token", tokenizer.adds_eos());
  if (!text.source.text.empty()) writer.set("tokenizer.chat_template", text.source.text);
}

}  // namespace

void write_gguf_vocabulary(GgufWriter& writer, const ModelFiles& files, int vocab) {
  std::error_code error;
  const std::string directory =
      fs::is_directory(files.path, error) ? files.path : fs::path(files.path).parent_path().string();
  std::optional<Vocabulary> vocabulary = read_vocabulary(directory);
  if (!vocabulary) {
    writer.set("tokenizer.ggml.model", "no_vocab");
    return;
  }
  write_entries(writer, *vocabulary, vocab);
  write_special(writer, load_text(directory), vocab);
}

}  // namespace ingot
