#include "compress/directory/directory_vocabulary.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <tuple>

#include "base/error.h"
#include "base/seeded_hash.h"
#include "base/utf8.h"
#include "text/load/pre_names.h"
#include "text/prompt.h"
#include "text/split/patterns.h"
#include "text/tokenizer.h"

namespace ingot {
namespace {

constexpr int32_t kUndefined = 0, kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
constexpr size_t kMaxPiece = 4096;                       // bytes: each cut of a piece is looked up
constexpr std::string_view kUnderline = "\xE2\x96\x81";  // ▁

struct Entries {
  std::vector<std::string_view> texts;
  std::vector<int32_t> types;
};

Entries read_entries(const Gguf& gguf) {
  Entries entries{.texts = gguf.get_string_array("tokenizer.ggml.tokens"), .types = {}};
  if (gguf.has("tokenizer.ggml.token_type")) entries.types = gguf.get_i32_array("tokenizer.ggml.token_type");
  entries.types.resize(entries.texts.size(), kNormal);
  std::ranges::replace(entries.types, kUndefined, kNormal);  // as llama.cpp and our reader take it
  // Converters fill the embedding's rows up with these.
  size_t n = entries.texts.size();
  while (n > 0 && entries.types[n - 1] == kUnused && entries.texts[n - 1].starts_with("[PAD")) --n;
  entries.texts.resize(n);
  entries.types.resize(n);
  return entries;
}

// All tokens, also those that are matched as a whole: a library that finds those in the vocabulary keeps their ids.
JsonObject vocab_of(const Entries& entries) {
  JsonObject vocab;
  vocab.reserve(entries.texts.size());
  for (size_t i = 0; i < entries.texts.size(); ++i) {
    const bool added = vocab.emplace(entries.texts[i], static_cast<int64_t>(i)).second;
    if (added) continue;
    if (entries.types[i] != kUnused)
      throw Error("[quantize] the tokenizer has the token '{}' twice, which tokenizer.json cannot say",
                  utf8_printable(entries.texts[i]));
    vocab.emplace(fmt::format("[PAD{}]", i), static_cast<int64_t>(i));
  }
  return vocab;
}

// Phi-3's control tokens take the white space behind them along; GGUF has no field for that.
bool strips_behind(const Gguf& gguf, std::string_view token) {
  std::string name = gguf.get_string("general.name", "");
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool phi3 = name.find("phi-3") != name.npos || name.find("phi3") != name.npos;
  return phi3 && token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
}

JsonArray added_tokens(const Gguf& gguf, const Entries& entries) {
  JsonArray added;
  for (size_t i = 0; i < entries.texts.size(); ++i) {
    const int32_t type = entries.types[i];
    if (!(type == kUnknown || type == kControl || type == kUserDefined) || entries.texts[i].empty()) continue;
    added.push_back(JsonObject{{"id", static_cast<int64_t>(i)},
                               {"content", entries.texts[i]},
                               {"single_word", false},
                               {"lstrip", false},
                               {"rstrip", strips_behind(gguf, entries.texts[i])},
                               {"normalized", false},
                               {"special", type != kUserDefined}});
  }
  return added;
}

JsonObject bpe_model(JsonObject vocab, JsonArray merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

JsonObject byte_level(bool prefix, bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", true}, {"use_regex", regex}};
}

// A pattern as published tokenizers write it.
Json stage_of(std::string_view pattern) {
  if (pattern == kNumberPattern || pattern == kNumbersPattern)
    return JsonObject{{"type", "Digits"}, {"individual_digits", pattern == kNumberPattern}};
  return JsonObject{
      {"type", "Split"}, {"pattern", JsonObject{{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

JsonObject pre_tokenizer_of(const PreName& name, bool prefix) {
  std::vector<std::string_view> patterns;
  for (const std::string_view pattern : name.patterns) {
    if (!pattern.empty()) patterns.push_back(pattern);
  }
  // The library's own stage splits so, too.
  const bool regex = !patterns.empty() && patterns.back() == kGpt2Pattern;
  if (regex) patterns.pop_back();
  if (prefix && !(regex && patterns.empty()))
    throw Error("[quantize] tokenizer.json cannot say that texts begin with a space and are split as '{}'", name.name);
  JsonArray stages;
  for (const std::string_view pattern : patterns) stages.push_back(stage_of(pattern));
  stages.push_back(byte_level(prefix, regex));
  if (stages.size() == 1) return stages[0].as_object();
  return {{"type", "Sequence"}, {"pretokenizers", std::move(stages)}};
}

void fill_byte_level(JsonObject& root, const Gguf& gguf, const Entries& entries) {
  const std::string pre = gguf.get_string("tokenizer.ggml.pre", "default");
  const PreName* name = find_pre_name(pre);
  if (name == nullptr || name->alphabet != PreAlphabet::kBytes)
    throw Error("[quantize] the vocabulary splits as '{}', which is no BPE over bytes", utf8_printable(pre));
  JsonArray merges;
  for (const std::string_view merge : gguf.get_string_array("tokenizer.ggml.merges")) merges.push_back(Json(merge));
  root["normalizer"] = name->nfc ? Json(JsonObject{{"type", "NFC"}}) : Json(nullptr);
  root["pre_tokenizer"] = pre_tokenizer_of(*name, gguf.get_bool("tokenizer.ggml.add_space_prefix", false));
  root["post_processor"] = byte_level(true, true);
  root["decoder"] = byte_level(true, true);
  JsonObject model = bpe_model(vocab_of(entries), std::move(merges));
  model["ignore_merges"] = name->ignore_merges;
  root["model"] = std::move(model);
}

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// SentencePiece merges what becomes the token of the best score: its pairs in that order, as transformers makes them.
JsonArray merges_by_score(const Gguf& gguf, const Entries& entries) {
  const std::vector<float> scores = gguf.get_f32_array("tokenizer.ggml.scores");
  SeededViewMap<size_t> ids;
  for (size_t i = 0; i < entries.texts.size(); ++i) {
    if (entries.types[i] == kNormal) ids.emplace(entries.texts[i], i);
  }
  struct Merge {
    float score;
    size_t left_length, right_length, left, right;
  };
  std::vector<Merge> merges;
  for (size_t i = 0; i < entries.texts.size(); ++i) {
    const std::string_view text = entries.texts[i];
    if (entries.types[i] != kNormal) continue;
    if (text.size() > kMaxPiece)
      throw Error("[quantize] the piece {} of the vocabulary has {} bytes, at most {} are read", i, text.size(),
                  kMaxPiece);
    const size_t begin = merges.size();
    for (size_t at = 1; at < text.size(); ++at) {
      if ((text[at] & 0xC0) == 0x80) continue;
      const auto left = ids.find(text.substr(0, at)), right = ids.find(text.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({scores.at(i), characters(left->first), characters(right->first), left->second, right->second});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(begin), merges.end(),
              [](const Merge& a, const Merge& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
  }
  std::ranges::stable_sort(merges, [](const Merge& a, const Merge& b) {
    return std::tuple(a.score, a.left_length, a.right_length) > std::tuple(b.score, b.left_length, b.right_length);
  });
  JsonArray result;
  result.reserve(merges.size());
  for (const Merge& merge : merges)
    result.push_back(JsonArray{Json(entries.texts[merge.left]), Json(entries.texts[merge.right])});
  return result;
}

JsonObject replace_stage(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", JsonObject{{"String", from}}}, {"content", to}};
}

void fill_sentencepiece(JsonObject& root, const Gguf& gguf, const Entries& entries, std::optional<Token> unknown) {
  if (gguf.get_bool("tokenizer.ggml.remove_extra_whitespaces", false))
    throw Error("[quantize] the vocabulary makes runs of spaces one, which no tokenizer.json of BPE says");
  const bool prefix = gguf.get_bool("tokenizer.ggml.add_space_prefix", true);
  JsonArray normalizers;
  if (prefix) normalizers.push_back(JsonObject{{"type", "Prepend"}, {"prepend", kUnderline}});
  normalizers.push_back(replace_stage(" ", kUnderline));
  root["normalizer"] = JsonObject{{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
  root["pre_tokenizer"] = nullptr;
  root["post_processor"] = nullptr;
  JsonArray decoders{replace_stage(kUnderline, " "), JsonObject{{"type", "ByteFallback"}},
                     JsonObject{{"type", "Fuse"}}};
  if (prefix) decoders.push_back(JsonObject{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  root["decoder"] = JsonObject{{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  JsonObject model = bpe_model(vocab_of(entries), merges_by_score(gguf, entries));
  model["byte_fallback"] = std::ranges::find(entries.types, kByte) != entries.types.end();
  model["fuse_unk"] = true;
  if (unknown && static_cast<size_t>(*unknown) < entries.texts.size())
    model["unk_token"] = entries.texts[static_cast<size_t>(*unknown)];
  root["model"] = std::move(model);
}

struct Special {
  Token id = 0;
  std::string text;
};
using MaybeSpecial = std::optional<Special>;

MaybeSpecial special(std::optional<Token> id, const Entries& entries) {
  if (!id || static_cast<size_t>(*id) >= entries.texts.size()) return {};
  return Special{*id, std::string(entries.texts[static_cast<size_t>(*id)])};
}

// BOS and EOS around each text.
JsonObject framing(const MaybeSpecial& bos, const MaybeSpecial& eos) {
  JsonArray single, pair;
  JsonObject specials;
  const auto add = [&](const MaybeSpecial& token, JsonArray& to, int type) {
    if (!token) return;
    to.push_back(JsonObject{{"SpecialToken", JsonObject{{"id", token->text}, {"type_id", type}}}});
    specials[token->text] =
        JsonObject{{"id", token->text}, {"ids", JsonArray{Json(token->id)}}, {"tokens", JsonArray{Json(token->text)}}};
  };
  const auto text = [&](const char* id, JsonArray& to, int type) {
    add(bos, to, type);
    to.push_back(JsonObject{{"Sequence", JsonObject{{"id", id}, {"type_id", type}}}});
    add(eos, to, type);
  };
  text("A", single, 0);
  text("A", pair, 0);
  text("B", pair, 1);
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(specials)}};
}

void add_template(JsonObject& config, const Gguf& gguf) {
  const TemplateSource source = template_of(gguf);
  if (source.text.empty()) return;
  config["chat_template"] = source.text;
  if (source.tool_use.empty()) return;
  config["chat_template"] = JsonArray{JsonObject{{"name", "default"}, {"template", source.text}},
                                      JsonObject{{"name", "tool_use"}, {"template", source.tool_use}}};
}

// One id, or the list of several.
Json ids_of(const std::vector<Token>& tokens) {
  if (tokens.size() == 1) return Json(tokens[0]);
  JsonArray list;
  for (const Token token : tokens) list.push_back(Json(token));
  return list;
}

}  // namespace

DirectoryVocabulary directory_vocabulary(const Gguf& gguf, int context) {
  if (!gguf.has("tokenizer.ggml.model"))
    throw Error("[quantize] {} has no vocabulary: a directory needs one", gguf.name());
  const std::string model = gguf.get_string("tokenizer.ggml.model");
  if (model == "no_vocab") return {};
  if (model != "gpt2" && model != "llama")
    throw Error("[quantize] the vocabulary is of the kind '{}', which is no BPE: no tokenizer.json is made of it",
                utf8_printable(model));
  // Checks all that is said of it.
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::from_gguf(gguf);
  const Entries entries = read_entries(gguf);
  JsonObject root{
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added_tokens(gguf, entries)}};
  if (model == "gpt2") {
    fill_byte_level(root, gguf, entries);
  } else {
    fill_sentencepiece(root, gguf, entries, tokenizer->unknown());
  }
  const MaybeSpecial bos = special(tokenizer->bos(), entries), eos = special(tokenizer->eos(), entries);
  const bool adds_bos = bos && tokenizer->adds_bos(), adds_eos = eos && tokenizer->adds_eos();
  if (adds_bos || adds_eos)
    root["post_processor"] = framing(adds_bos ? bos : MaybeSpecial(), adds_eos ? eos : MaybeSpecial());
  DirectoryVocabulary result;
  JsonObject config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                    {"clean_up_tokenization_spaces", false},
                    {"model_max_length", context},
                    {"add_bos_token", adds_bos},
                    {"add_eos_token", adds_eos}};
  JsonObject generation;
  const auto name = [&](const char* word, const MaybeSpecial& token, bool has_id) {
    if (!token) return;
    config[fmt::format("{}_token", word)] = token->text;
    if (has_id) result.ids[fmt::format("{}_token_id", word)] = generation[fmt::format("{}_token_id", word)] = token->id;
  };
  name("bos", bos, true);
  name("eos", eos, true);
  name("pad", special(tokenizer->pad(), entries), true);
  name("unk", special(tokenizer->unknown(), entries), false);
  if (!tokenizer->end_tokens().empty()) generation["eos_token_id"] = ids_of(tokenizer->end_tokens());
  add_template(config, gguf);
  result.files.emplace_back("tokenizer.json", to_json(root) + "\n");
  result.files.emplace_back("tokenizer_config.json", to_json_pretty(config) + "\n");
  if (!generation.empty()) result.files.emplace_back("generation_config.json", to_json_pretty(generation) + "\n");
  return result;
}

}  // namespace ingot
