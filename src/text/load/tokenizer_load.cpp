#include "text/load/tokenizer_load.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/error.h"
#include "base/utf8.h"
#include "text/model/bpe.h"
#include "text/model/sentencepiece_model.h"
#include "text/model/unigram.h"

namespace ingot {

namespace {

constexpr std::string_view kUnderline = "\xE2\x96\x81";  // ▁

std::string beside(const std::string& directory, const char* name) {
  return (std::filesystem::path(directory) / name).string();
}

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// A token's name in a configuration: a string, or an object with its content.
std::string token_name(const JsonObject& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr || value->is_null()) return {};
  if (value->is_object()) return get_string(value->as_object(), "content", "");
  return std::string(as_string(*value, key));
}

void read_names(const JsonObject& object, TokenizerConfig& config) {
  const auto fill = [&](std::string& name, std::string_view key) {
    if (name.empty()) name = token_name(object, key);
  };
  fill(config.bos, "bos_token");
  fill(config.eos, "eos_token");
  fill(config.unknown, "unk_token");
  fill(config.pad, "pad_token");
}

void read_added_tokens_decoder(const JsonObject& object, TokenizerConfig& config) {
  const JsonObject* added = find_object(object, "added_tokens_decoder");
  if (added == nullptr) return;
  for (const auto& member : *added) {
    const std::string id(member.key());
    const bool digits = !id.empty() && id.size() <= 8 && id.find_first_not_of("0123456789") == id.npos;
    if (!digits) throw Error("[tokenizer] added_tokens_decoder: '{}' is no token id", id);
    config.added.push_back(read_added_token(as_object(member.value(), id), static_cast<Token>(std::stol(id))));
  }
}

void read_end_tokens(const std::string& path, TokenizerConfig& config) {
  if (!is_file(path)) return;
  const Json json = read_json_file(path);
  const JsonObject& object = as_object(json, path);
  const Json* value = find(object, "eos_token_id");
  if (value == nullptr || value->is_null()) return;
  const auto add = [&](const Json& id) {
    config.end_tokens.push_back(static_cast<Token>(as_int(id, "eos_token_id", 0, INT32_MAX)));
  };
  if (value->is_array()) {
    for (const Json& id : value->as_array()) add(id);
  } else {
    add(*value);
  }
}

std::unique_ptr<TokenModel> sentencepiece_model(const SentencePieceOptions& options, std::span<const float> scores,
                                                const TokenizerParts& parts) {
  const Vocab& vocab = *parts.vocab;
  if (!options.unigram) {
    BpeOptions bpe{.by_score = true, .byte_fallback = true, .fuse_unknown = true};
    if (parts.unknown) bpe.unknown = *parts.unknown;
    return std::make_unique<Bpe>(vocab, bpe, scores);
  }
  // Only normal pieces have a score that counts. A user-defined one is to be taken where it stands: SentencePiece gives
  // it the best score for each byte, but none below the least positive float; readers of GGUF give it 0.
  float lowest = 0, best = std::numeric_limits<float>::min();
  for (size_t i = 0; i < scores.size(); i++) {
    if (vocab.kind(static_cast<Token>(i)) != TokenKind::kNormal) continue;
    lowest = std::min(lowest, scores[i]);
    best = std::max(best, scores[i]);
  }
  std::vector<double> normal(scores.begin(), scores.end());
  for (size_t i = 0; i < scores.size(); i++) {
    const auto token = static_cast<Token>(i);
    const TokenKind kind = vocab.kind(token);
    if (kind == TokenKind::kNormal) continue;
    normal[i] = kind != TokenKind::kUserDefined ? lowest
                : options.single                ? static_cast<float>(vocab.bytes(token).size()) * best - 0.1
                                                : 0.0;
  }
  UnigramOptions unigram{.byte_fallback = true, .single = options.single, .lowest = lowest};
  if (parts.unknown) unigram.unknown = *parts.unknown;
  return std::make_unique<Unigram>(vocab, unigram, normal);
}

void add_user_defined(const Vocab& vocab, ByteTrie& trie) {
  for (Token token = 0; token < static_cast<Token>(vocab.size()); token++) {
    const std::string_view text = vocab.bytes(token);
    if (vocab.kind(token) != TokenKind::kUserDefined || text.empty()) continue;
    if (text.size() > 4096 || !utf8_valid(text)) {
      throw Error("[tokenizer] the user-defined piece {} is not UTF-8 of at most 4096 bytes", token);
    }
    trie.insert(text, token);
  }
}

}  // namespace

void build_sentencepiece(const SentencePieceOptions& options, std::span<const float> scores, TokenizerParts& parts) {
  parts.kind = options.unigram ? "SentencePiece unigram" : "SentencePiece BPE";
  parts.model = sentencepiece_model(options, scores, parts);
  const bool plain = options.charsmap.empty() && !options.squeeze_spaces && options.escape_spaces && !options.suffix;
  if (plain) {
    // The same in two steps that copy a text only where they change it.
    using Kind = NormalizerStep::Kind;
    if (options.dummy_prefix) parts.normalizer.add({.kind = Kind::kPrepend, .to = std::string(kUnderline)});
    parts.normalizer.add({.kind = Kind::kReplace, .from = " ", .to = std::string(kUnderline)});
  } else {
    SentencePieceNormalizer normalizer;
    normalizer.dummy_prefix = options.dummy_prefix;
    normalizer.squeeze_spaces = options.squeeze_spaces;
    normalizer.escape_spaces = options.escape_spaces;
    normalizer.suffix = options.suffix;
    if (!options.charsmap.empty()) normalizer.charsmap.emplace(options.charsmap);
    add_user_defined(*parts.vocab, normalizer.user_defined);
    parts.model = std::make_unique<SentencePieceModel>(std::move(normalizer), !options.unigram, std::move(parts.model));
  }
  using Step = DecoderStep::Kind;
  parts.decoder.add({.kind = Step::kByteTokens});
  parts.decoder.add({.kind = Step::kReplace, .from = std::string(kUnderline), .to = " "});
  parts.decoder.add({.kind = Step::kFuse});
  if (options.dummy_prefix && !options.suffix) parts.decoder.add({.kind = Step::kStrip, .from = " ", .start = 1});
}

void add_named_end_tokens(TokenizerParts& parts) {
  static constexpr std::array<std::string_view, 14> kNames = {
      "<|eot_id|>",      "<|im_end|>", "<|end|>",  "<end_of_turn>",         "<|endoftext|>",   "<|eom_id|>", "<EOT>",
      "<|end_of_text|>", "<|return|>", "<|call|>", "<｜end▁of▁sentence｜>", "<|end_of_turn|>", "<|eot|>",    "<|eom|>"};
  for (const std::string_view name : kNames) {
    // Where answers are made of messages, each ends with <|end|>, and the answer with <|return|> or <|call|>.
    if (name == "<|end|>" && parts.added.find("<|return|>") != nullptr) continue;
    const AddedToken* token = parts.added.find(name);
    if (token != nullptr && token->special) parts.end_tokens.push_back(token->id);
  }
}

TokenizerConfig read_tokenizer_config(const std::string& directory) {
  TokenizerConfig config;
  const std::string path = beside(directory, "tokenizer_config.json");
  if (is_file(path)) {
    const Json json = read_json_file(path);
    const JsonObject& object = as_object(json, path);
    read_names(object, config);
    read_added_tokens_decoder(object, config);
    const auto flag = [&](const char* key) -> std::optional<bool> {
      const Json* value = find(object, key);
      return value != nullptr && value->is_bool() ? std::optional<bool>(value->as_bool()) : std::nullopt;
    };
    config.add_bos = flag("add_bos_token");
    config.add_eos = flag("add_eos_token");
    config.lowercase = flag("do_lower_case");
    config.tokenizer_class = get_string(object, "tokenizer_class", "");
  }
  const std::string map = beside(directory, "special_tokens_map.json");
  if (is_file(map)) {
    const Json json = read_json_file(map);
    read_names(as_object(json, map), config);
  }
  read_end_tokens(beside(directory, "generation_config.json"), config);
  return config;
}

void apply_tokenizer_config(const TokenizerConfig& config, TokenizerParts& parts) {
  const auto set = [&](const std::string& name, std::optional<Token>& token) {
    if (name.empty()) return;
    if (const AddedToken* added = parts.added.find(name)) {
      token = added->id;
    } else if (const Token found = parts.vocab->find(name); found != kNoToken) {
      token = found;
    }
  };
  set(config.bos, parts.bos);
  set(config.eos, parts.eos);
  set(config.unknown, parts.unknown);
  set(config.pad, parts.pad);
  for (const Token token : config.end_tokens) {
    if (parts.vocab->contains(token)) parts.end_tokens.push_back(token);
  }
}

}  // namespace ingot
