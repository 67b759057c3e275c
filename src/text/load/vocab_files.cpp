// Vocabularies of the years before tokenizer.json: vocab.txt (BERT's WordPiece), and vocab.json with merges.txt (GPT-2
// and its heirs). Both are put in the words of a tokenizer.json, which says the same, and are read as one.
#include <filesystem>
#include <map>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/load/tokenizer_load.h"
#include "text/split/patterns.h"

namespace ingot {

namespace {

// Calls visit(line, number) for each, without its end.
template <class Visit>
void each_line(std::string_view text, Visit&& visit) {
  size_t number = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = std::min(text.find('\n', pos), text.size());
    std::string_view line = text.substr(pos, end - pos);
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line, number++);
    pos = end + 1;
  }
}

Json added_token(Token id, std::string_view content, bool special, bool lstrip = false) {
  return JsonObject{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", lstrip},
                    {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// The tokens that are matched as a whole: what the configuration names or adds, where it is a token.
JsonArray added_tokens(const JsonObject& vocab, const TokenizerConfig& config,
                       std::span<const std::string_view> names) {
  std::map<Token, Json> added;
  const auto add_name = [&](std::string_view name) {
    const Json* id = name.empty() ? nullptr : find(vocab, name);
    if (id == nullptr) return;
    const auto token = static_cast<Token>(as_int(*id, name, 0, static_cast<int64_t>(kMaxTokens)));
    added.emplace(token, added_token(token, name, true, name == "<mask>"));
  };
  for (const AddedToken& token : config.added) {
    Json json = added_token(token.id, token.content, token.special, token.lstrip);
    json.as_object()["rstrip"] = token.rstrip;
    json.as_object()["normalized"] = token.normalized;
    json.as_object()["single_word"] = token.single_word;
    added.emplace(token.id, std::move(json));
  }
  for (const std::string_view name : {std::string_view(config.bos), std::string_view(config.eos),
                                      std::string_view(config.unknown), std::string_view(config.pad)}) {
    add_name(name);
  }
  for (const std::string_view name : names) add_name(name);
  JsonArray array;
  for (auto& [id, json] : added) array.push_back(std::move(json));
  return array;
}

Json token_pair(const JsonObject& vocab, std::string_view name, const std::string& path) {
  const Json* id = find(vocab, name);
  if (id == nullptr) throw Error("[tokenizer] {} has no {}", path, name);
  return JsonArray{Json(name), *id};
}

Json read_merges(const std::string& text) {
  JsonArray merges;
  each_line(text, [&](std::string_view line, size_t number) {
    if (line.empty() || (number == 0 && line.starts_with("#version"))) return;
    merges.emplace_back(line);
  });
  return merges;
}

}  // namespace

std::string wordpiece_as_json(const std::string& text, const TokenizerConfig& config, const std::string& path) {
  JsonObject vocab;
  int64_t id = 0;
  each_line(text, [&](std::string_view line, size_t) {
    if (!utf8_valid(line)) throw Error("[tokenizer] {}: line {} is not UTF-8", path, id + 1);
    if (!vocab.emplace(line, id).second) {
      throw Error("[tokenizer] {}: line {} ('{}') is there twice", path, id + 1, utf8_printable(line));
    }
    id++;
  });
  (void)token_pair(vocab, "[UNK]", path);  // without it some words could not be written at all
  static constexpr std::string_view kNames[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};
  JsonObject root;
  root["added_tokens"] = added_tokens(vocab, config, kNames);
  root["normalizer"] = JsonObject{{"type", "BertNormalizer"},
                                  {"clean_text", true},
                                  {"handle_chinese_chars", true},
                                  {"strip_accents", nullptr},
                                  {"lowercase", config.lowercase.value_or(true)}};
  root["pre_tokenizer"] = JsonObject{{"type", "BertPreTokenizer"}};
  root["post_processor"] = JsonObject{
      {"type", "BertProcessing"}, {"sep", token_pair(vocab, "[SEP]", path)}, {"cls", token_pair(vocab, "[CLS]", path)}};
  root["decoder"] = JsonObject{{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  root["model"] = JsonObject{{"type", "WordPiece"},
                             {"unk_token", config.unknown.empty() ? "[UNK]" : config.unknown},
                             {"continuing_subword_prefix", "##"},
                             {"max_input_chars_per_word", 100},
                             {"vocab", std::move(vocab)}};
  return to_json(root);
}

std::string gpt2_as_json(const std::string& vocab_text, const std::string& merges, const TokenizerConfig& config,
                         const std::string& path) {
  const std::string& kind = config.tokenizer_class;
  if (kind.starts_with("CLIP")) throw Error("[tokenizer] {}: {} without a tokenizer.json is not supported", path, kind);
  const Json json = parse_json(vocab_text, path);
  const JsonObject& vocab = as_object(json, path);
  static constexpr std::string_view kNames[] = {"<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"};
  const bool roberta =
      kind.starts_with("Roberta") || (find(vocab, "<mask>") != nullptr && find(vocab, "<s>") != nullptr);
  const bool qwen = kind.starts_with("Qwen2");
  JsonObject root;
  root["added_tokens"] = added_tokens(vocab, config, roberta ? kNames : std::span(kNames).first(1));
  root["normalizer"] = qwen ? Json(JsonObject{{"type", "NFC"}}) : Json();
  const Json byte_level =
      JsonObject{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", !qwen}};
  if (qwen) {
    const Json split = JsonObject{{"type", "Split"},
                                  {"pattern", JsonObject{{"Regex", kQwen2Pattern}}},
                                  {"behavior", "Isolated"},
                                  {"invert", false}};
    root["pre_tokenizer"] = JsonObject{{"type", "Sequence"}, {"pretokenizers", JsonArray{split, byte_level}}};
  } else {
    root["pre_tokenizer"] = byte_level;
  }
  if (roberta) {
    root["post_processor"] = JsonObject{{"type", "RobertaProcessing"},
                                        {"sep", token_pair(vocab, "</s>", path)},
                                        {"cls", token_pair(vocab, "<s>", path)},
                                        {"trim_offsets", true},
                                        {"add_prefix_space", false}};
  }
  root["decoder"] = byte_level;
  root["model"] = JsonObject{{"type", "BPE"}, {"vocab", json}, {"merges", read_merges(merges)}};
  return to_json(root);
}

}  // namespace ingot
