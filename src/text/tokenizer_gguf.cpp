// Vocabularies inside GGUF files: tokenizer.ggml.*.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "files/gguf.h"
#include "text/bpe.h"
#include "text/byte_level.h"
#include "text/pre_names.h"
#include "text/token_trie.h"
#include "text/tokenizer.h"
#include "text/tokenizer_load.h"

namespace ingot {

namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";

TokenKind kind_of(int64_t type, size_t token) {
  switch (type) {
    case 0:  // undefined
    case 1:
      return TokenKind::kNormal;
    case 2:
      return TokenKind::kUnknown;
    case 3:
      return TokenKind::kControl;
    case 4:
      return TokenKind::kUserDefined;
    case 5:
      return TokenKind::kUnused;
    case 6:
      return TokenKind::kByte;
    default:
      throw Error("[tokenizer] {}: token {} has the type {}, 0 to 6 are known", "tokenizer.ggml.token_type", token,
                  type);
  }
}

std::vector<TokenKind> read_kinds(const Gguf& gguf, size_t tokens) {
  std::vector<TokenKind> kinds(tokens, TokenKind::kNormal);
  if (!gguf.has("tokenizer.ggml.token_type")) return kinds;
  const std::vector<int32_t> types = gguf.get_i32_array("tokenizer.ggml.token_type");
  if (types.size() != tokens) {
    throw Error("[tokenizer] tokenizer.ggml.token_type has {} entries, {} tokens", types.size(), tokens);
  }
  for (size_t i = 0; i < tokens; i++) kinds[i] = kind_of(types[i], i);
  return kinds;
}

void check_count(size_t tokens) {
  if (tokens == 0 || tokens > kMaxTokens) {
    throw Error("[tokenizer] {} has {} tokens, 1 to {} allowed", kTokens, tokens, kMaxTokens);
  }
}

// Entries as the model compares them. Those that are matched as a whole keep their text.
void fill_vocab(const Gguf& gguf, bool byte_level, Vocab& vocab) {
  const std::vector<std::string_view>& tokens = gguf.get_string_array(kTokens);
  check_count(tokens.size());
  const std::vector<TokenKind> kinds = read_kinds(gguf, tokens.size());
  size_t bytes = 0;
  for (const std::string_view token : tokens) bytes += token.size();
  vocab.reserve(tokens.size(), bytes);
  std::string decoded;
  for (size_t i = 0; i < tokens.size(); i++) {
    decoded.clear();
    const bool mapped = byte_level && kinds[i] == TokenKind::kNormal && append_byte_level(tokens[i], decoded);
    const bool reachable = kinds[i] == TokenKind::kNormal && !tokens[i].empty() && (mapped || !byte_level);
    const bool lost = kinds[i] == TokenKind::kNormal && !reachable;
    const Token token = vocab.add(mapped ? decoded : tokens[i], lost ? TokenKind::kUnused : kinds[i]);
    if (reachable && !vocab.index(token)) {
      throw Error("[tokenizer] {}: token {} ('{}') is there twice", kTokens, i, utf8_printable(tokens[i]));
    }
  }
}

std::optional<Token> read_id(const Gguf& gguf, std::string_view name, const Vocab& vocab) {
  const std::string key = fmt::format("tokenizer.ggml.{}", name);
  if (!gguf.has(key)) return std::nullopt;
  const uint64_t id = gguf.get_u64(key);
  if (id == UINT32_MAX) return std::nullopt;  // how some writers say "none"
  if (id >= vocab.size()) throw Error("[tokenizer] {} is {}, the vocabulary has {} tokens", key, id, vocab.size());
  return static_cast<Token>(id);
}

// Control and user-defined tokens are matched as a whole.
void add_tokens(const Gguf& gguf, TokenizerParts& parts) {
  // Phi-3's published tokenizer takes the white space behind its control tokens along; GGUF has no field for that.
  std::string name = gguf.get_string("general.name", "");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool phi3 = name.find("phi-3") != name.npos || name.find("phi3") != name.npos;
  const Vocab& vocab = *parts.vocab;
  for (Token token = 0; token < static_cast<Token>(vocab.size()); token++) {
    const TokenKind kind = vocab.kind(token);
    const bool special = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
    if (!(special || kind == TokenKind::kUserDefined) || vocab.bytes(token).empty()) continue;
    AddedToken added{.id = token, .content = std::string(vocab.bytes(token)), .special = special};
    added.rstrip = phi3 && added.content != "<unk>" && added.content != "<s>" && added.content != "<|endoftext|>";
    parts.added.add(std::move(added), parts.normalizer);
  }
}

void read_special(const Gguf& gguf, bool add_bos, bool add_eos, TokenizerParts& parts) {
  const Vocab& vocab = *parts.vocab;
  parts.bos = read_id(gguf, "bos_token_id", vocab);
  parts.eos = read_id(gguf, "eos_token_id", vocab);
  parts.unknown = read_id(gguf, "unknown_token_id", vocab);
  parts.pad = read_id(gguf, "padding_token_id", vocab);
  for (const std::string_view name : {"eot_token_id", "eom_token_id"}) {
    if (const auto id = read_id(gguf, name, vocab)) parts.end_tokens.push_back(*id);
  }
  if (gguf.get_bool("tokenizer.ggml.add_bos_token", add_bos) && parts.bos) parts.prefix.push_back(*parts.bos);
  if (gguf.get_bool("tokenizer.ggml.add_eos_token", add_eos) && parts.eos) parts.suffix.push_back(*parts.eos);
}

std::vector<float> read_scores(const Gguf& gguf, const Vocab& vocab) {
  std::vector<float> scores = gguf.get_f32_array("tokenizer.ggml.scores");
  if (scores.size() != vocab.size()) {
    throw Error("[tokenizer] tokenizer.ggml.scores has {} entries, {} tokens", scores.size(), vocab.size());
  }
  return scores;
}

void load_sentencepiece(const Gguf& gguf, TokenizerParts& parts) {
  Vocab& vocab = *parts.vocab;
  fill_vocab(gguf, false, vocab);
  read_special(gguf, true, false, parts);
  const std::vector<float> scores = read_scores(gguf, vocab);
  SentencePieceOptions options;
  options.dummy_prefix = gguf.get_bool("tokenizer.ggml.add_space_prefix", true);
  options.squeeze_spaces = gguf.get_bool("tokenizer.ggml.remove_extra_whitespaces", false);
  build_sentencepiece(options, scores, parts);
}

// T5 and its like.
void load_unigram(const Gguf& gguf, TokenizerParts& parts) {
  Vocab& vocab = *parts.vocab;
  fill_vocab(gguf, false, vocab);
  read_special(gguf, false, true, parts);
  const std::vector<float> scores = read_scores(gguf, vocab);
  SentencePieceOptions options{.unigram = true};
  options.dummy_prefix = gguf.get_bool("tokenizer.ggml.add_space_prefix", true);
  options.squeeze_spaces = gguf.get_bool("tokenizer.ggml.remove_extra_whitespaces", false);
  std::string charsmap;
  if (gguf.has("tokenizer.ggml.precompiled_charsmap")) {
    for (const int32_t byte : gguf.get_i32_array("tokenizer.ggml.precompiled_charsmap")) {
      charsmap.push_back(static_cast<char>(byte));
    }
  }
  options.charsmap = charsmap;
  build_sentencepiece(options, scores, parts);
}

// RWKV: at each place the longest token. Entries are bytes with escapes.
class Greedy final : public TokenModel {
 public:
  explicit Greedy(const Vocab& vocab, Token unknown) : trie_(vocab), unknown_(unknown) {}
  void encode(std::string_view piece, ModelScratch&, std::vector<Token>& out) const override {
    for (size_t pos = 0; pos < piece.size();) {
      Token token = unknown_;
      size_t next = pos + 1;
      TokenTrie::Node node = TokenTrie::kRoot;
      for (size_t end = pos; end < piece.size();) {
        node = trie_.step(node, piece[end++]);
        if (node == TokenTrie::kNone) break;
        if (trie_.token(node) == kNoToken) continue;
        token = trie_.token(node);
        next = end;
      }
      if (token != kNoToken) out.push_back(token);
      pos = next;
    }
  }

 private:
  TokenTrie trie_;
  Token unknown_;
};

std::string unescape(std::string_view text, size_t index) {
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '\\') {
      out.push_back(text[i]);
      continue;
    }
    const char kind = i + 1 < text.size() ? text[++i] : '\0';
    const auto byte = kind == 'x' && i + 2 < text.size()
                          ? parse_byte_token(fmt::format("<0x{}>", text.substr(i + 1, 2)))
                          : std::nullopt;
    if (kind == '\0' || (kind == 'x' && !byte)) {
      throw Error("[tokenizer] {}: token {} ('{}') has a broken escape", kTokens, index, utf8_printable(text));
    }
    if (byte) i += 2;
    out.push_back(byte          ? static_cast<char>(*byte)
                  : kind == 't' ? '\t'
                  : kind == 'n' ? '\n'
                  : kind == 'r' ? '\r'
                                : kind);
  }
  return out;
}

void load_rwkv(const Gguf& gguf, TokenizerParts& parts) {
  Vocab& vocab = *parts.vocab;
  const std::vector<std::string_view>& tokens = gguf.get_string_array(kTokens);
  check_count(tokens.size());
  const std::vector<TokenKind> kinds = read_kinds(gguf, tokens.size());
  for (size_t i = 0; i < tokens.size(); i++) {
    const bool normal = kinds[i] == TokenKind::kNormal;
    const Token token = vocab.add(normal ? unescape(tokens[i], i) : std::string(tokens[i]), kinds[i]);
    if (normal && !vocab.bytes(token).empty() && !vocab.index(token)) {
      throw Error("[tokenizer] {}: token {} ('{}') is there twice", kTokens, i, utf8_printable(tokens[i]));
    }
  }
  read_special(gguf, false, false, parts);
  parts.kind = "RWKV";
  parts.model = std::make_unique<Greedy>(vocab, parts.unknown.value_or(kNoToken));
}

void load_byte_level(const Gguf& gguf, TokenizerParts& parts) {
  const std::string pre = gguf.get_string("tokenizer.ggml.pre", "default");
  const PreName* name = find_pre_name(pre);
  if (name == nullptr) throw Error("[tokenizer] the pre-tokenizer '{}' is not known", utf8_printable(pre));
  parts.kind = fmt::format("byte-level BPE, {}", pre);
  fill_vocab(gguf, true, *parts.vocab);
  read_special(gguf, name->add_bos, false, parts);
  if (name->nfc) parts.normalizer.add({.kind = NormalizerStep::Kind::kNfc});
  if (gguf.get_bool("tokenizer.ggml.add_space_prefix", false)) {
    parts.pre_tokenizer.add({.kind = PreTokenizerStage::Kind::kPrefixSpace});
  }
  for (const Scanner scanner : name->scanners) {
    if (scanner != nullptr) parts.pre_tokenizer.add({.scanner = scanner});
  }
  BpeOptions options{.byte_level = true, .ignore_merges = name->ignore_merges};
  auto bpe = std::make_unique<Bpe>(*parts.vocab, options);
  const std::vector<std::string_view>& merges = gguf.get_string_array("tokenizer.ggml.merges");
  bpe->reserve_merges(merges.size());
  std::string left, right;
  for (size_t i = 0; i < merges.size(); i++) {
    const size_t space = merges[i].find(' ', 1);
    left.clear();
    right.clear();
    if (space == merges[i].npos || !append_byte_level(merges[i].substr(0, space), left) ||
        !append_byte_level(merges[i].substr(space + 1), right)) {
      throw Error("[tokenizer] tokenizer.ggml.merges: entry {} ('{}') is no pair of byte-level tokens", i,
                  utf8_printable(merges[i]));
    }
    bpe->add_merge(left, right);
  }
  parts.model = std::move(bpe);
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const Gguf& gguf) {
  if (!gguf.has("tokenizer.ggml.model")) throw Error("[tokenizer] {} has no tokenizer", gguf.name());
  const std::string model = gguf.get_string("tokenizer.ggml.model");
  TokenizerParts parts;
  if (model == "llama") {
    load_sentencepiece(gguf, parts);
  } else if (model == "gpt2") {
    load_byte_level(gguf, parts);
  } else if (model == "t5") {
    load_unigram(gguf, parts);
  } else if (model == "rwkv") {
    load_rwkv(gguf, parts);
  } else {
    throw Error("[tokenizer] {}: the tokenizer '{}' is not known; llama, gpt2, t5 and rwkv are", gguf.name(),
                utf8_printable(model));
  }
  add_tokens(gguf, parts);
  add_named_end_tokens(parts);
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace ingot
