// Vocabularies inside GGUF files: tokenizer.ggml.*.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "files/gguf/gguf.h"
#include "text/load/pre_names.h"
#include "text/load/tokenizer_load.h"
#include "text/model/bpe.h"
#include "text/model/byte_level.h"
#include "text/model/token_trie.h"
#include "text/model/wordpiece.h"
#include "text/tokenizer.h"

namespace ingot {

namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kUnderline = "\xE2\x96\x81";  // ▁

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

// How an entry is written in the file: appends what it stands for, false where it stands for nothing.
using Unwrap = bool (*)(std::string_view entry, std::string& out);

// Entries as the model compares them: what `unwrap` makes of those that text becomes, where it is given. Those that are
// matched as a whole keep their text.
void fill_vocab(const Gguf& gguf, Unwrap unwrap, Vocab& vocab) {
  const std::vector<std::string_view>& tokens = gguf.get_string_array(kTokens);
  check_count(tokens.size());
  const std::vector<TokenKind> kinds = read_kinds(gguf, tokens.size());
  size_t bytes = 0;
  for (const std::string_view token : tokens) bytes += token.size();
  vocab.reserve(tokens.size(), bytes);
  std::string unwrapped;
  for (size_t i = 0; i < tokens.size(); i++) {
    unwrapped.clear();
    const bool normal = kinds[i] == TokenKind::kNormal;
    const bool mapped = normal && unwrap != nullptr && unwrap(tokens[i], unwrapped);
    const std::string_view text = mapped ? std::string_view(unwrapped) : tokens[i];
    const bool reachable = normal && !text.empty() && (mapped || unwrap == nullptr);
    const Token token = vocab.add(text, normal && !reachable ? TokenKind::kUnused : kinds[i]);
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
  fill_vocab(gguf, nullptr, vocab);
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
  fill_vocab(gguf, nullptr, vocab);
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
  explicit Greedy(const Vocab& vocab, Token unknown) : vocab_(&vocab), trie_(vocab), unknown_(unknown) {}
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const override {
    for (size_t pos = 0; pos < piece.size();) {
      Token token = unknown_;
      size_t next = pos + 1;
      TokenTrie::Node node = TokenTrie::kRoot;
      for (size_t end = pos; end < piece.size();) {
        node = trie_.step(node, piece[end++]);
        if (node == TokenTrie::kNone) break;
        const Token found = trie_.token(node);
        if (found == kNoToken || (vocab_->kind(found) == TokenKind::kControl && !scratch.control)) continue;
        token = found;
        next = end;
      }
      if (token != kNoToken) out.push_back(token);
      pos = next;
    }
  }

 private:
  const Vocab* vocab_;
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

// "▁the" begins a word and "ing" continues one; names in brackets are neither. Written as published: "the", "##ing".
bool append_wordpiece(std::string_view entry, std::string& out) {
  const bool begins = entry.starts_with(kUnderline);
  const bool name = entry.starts_with('[') && entry.ends_with(']');
  if (!begins && !name) out.append("##");
  out.append(begins ? entry.substr(kUnderline.size()) : entry);
  return true;
}

// The token that the file gives by id, otherwise the one of that name.
std::optional<Token> read_named(const Gguf& gguf, std::string_view key, std::string_view name, const Vocab& vocab) {
  if (const auto id = read_id(gguf, key, vocab)) return id;
  for (Token token = 0; token < static_cast<Token>(vocab.size()); token++) {
    if (vocab.bytes(token) == name) return token;
  }
  return std::nullopt;
}

void load_wordpiece(const Gguf& gguf, TokenizerParts& parts) {
  parts.kind = "WordPiece";
  fill_vocab(gguf, append_wordpiece, *parts.vocab);
  read_special(gguf, false, false, parts);
  const Vocab& vocab = *parts.vocab;
  parts.unknown = read_named(gguf, "unknown_token_id", "[UNK]", vocab);
  if (!parts.unknown) throw Error("[tokenizer] {} has no token for unknown words", gguf.name());
  if (!parts.bos) parts.bos = read_named(gguf, "cls_token_id", "[CLS]", vocab);
  // Such a model reads every text framed by these two; files do not say so.
  const auto separator = read_named(gguf, "seperator_token_id", "[SEP]", vocab);
  parts.prefix.clear();
  parts.suffix.clear();
  if (parts.bos) parts.prefix.push_back(*parts.bos);
  if (separator) parts.suffix.push_back(*separator);

  using Kind = NormalizerStep::Kind;
  const bool lowercase = gguf.get_bool("tokenizer.ggml.normalizer.lowercase", true);
  parts.normalizer.add({.kind = Kind::kBertClean});
  parts.normalizer.add({.kind = Kind::kBertIdeographs});
  if (gguf.get_bool("tokenizer.ggml.normalizer.strip_accents", lowercase)) {
    parts.normalizer.add({.kind = Kind::kNfd});
    parts.normalizer.add({.kind = Kind::kStripNonspacing});
  }
  if (lowercase) parts.normalizer.add({.kind = Kind::kLowercase});
  parts.pre_tokenizer.add({.scanner = scan_space_character, .behavior = SplitBehavior::kRemoved});
  parts.pre_tokenizer.add({.scanner = scan_library_punctuation});
  parts.model = std::make_unique<WordPiece>(vocab, WordPieceOptions{.unknown = *parts.unknown});
  parts.decoder.add({.kind = DecoderStep::Kind::kWordPiece, .from = "##", .flag = true});
}

// A merge over characters may make or take a token that is matched as a whole before the model sees a text; such tokens
// are not indexed, and no text takes the merge.
void add_character_merge(std::string_view left, std::string_view right, std::string& joined, Bpe& bpe) {
  const Bpe::MergeIds ids = bpe.merge_ids(left, right, kNoToken, joined);
  if (ids.complete()) {
    bpe.add_merge(ids.left, ids.right, ids.whole);
  } else {
    bpe.skip_merge();
  }
}

void add_merges(const Gguf& gguf, bool byte_level, Bpe& bpe) {
  const std::vector<std::string_view>& merges = gguf.get_string_array("tokenizer.ggml.merges");
  bpe.reserve_merges(merges.size());
  std::string left, right;
  for (size_t i = 0; i < merges.size(); i++) {
    const size_t space = merges[i].find(' ', 1);
    const bool pair = space != merges[i].npos;
    if (pair && !byte_level) {
      add_character_merge(merges[i].substr(0, space), merges[i].substr(space + 1), left, bpe);
      continue;
    }
    left.clear();
    right.clear();
    if (!pair || !append_byte_level(merges[i].substr(0, space), left) ||
        !append_byte_level(merges[i].substr(space + 1), right)) {
      throw Error("[tokenizer] tokenizer.ggml.merges: entry {} ('{}') is no pair of {}tokens", i,
                  utf8_printable(merges[i]), byte_level ? "byte-level " : "");
    }
    bpe.add_merge(left, right);
  }
}

// The stages before the model and behind it that a name stands for.
void add_stages(const Gguf& gguf, const PreName& name, TokenizerParts& parts) {
  if (name.nfc) parts.normalizer.add({.kind = NormalizerStep::Kind::kNfc});
  const bool words = name.alphabet == PreAlphabet::kWords;
  if (words && gguf.get_bool("tokenizer.ggml.normalizer.lowercase", false)) {
    parts.normalizer.add({.kind = NormalizerStep::Kind::kLowercase});
  }
  if (name.alphabet == PreAlphabet::kBytes && gguf.get_bool("tokenizer.ggml.add_space_prefix", false)) {
    parts.pre_tokenizer.add({.kind = PreTokenizerStage::Kind::kPrefixSpace});
  }
  for (const std::string_view pattern : name.patterns) {
    if (pattern.empty()) continue;
    parts.pre_tokenizer.add(pattern_stage(pattern, words ? SplitBehavior::kRemoved : SplitBehavior::kIsolated, words));
  }
  if (name.alphabet == PreAlphabet::kUnderlined) {
    const std::string underline(kUnderline);
    parts.normalizer.add({.kind = NormalizerStep::Kind::kReplace, .from = " ", .to = underline});
    parts.decoder.add({.kind = DecoderStep::Kind::kByteTokens});
    parts.decoder.add({.kind = DecoderStep::Kind::kReplace, .from = underline, .to = " "});
    parts.decoder.add({.kind = DecoderStep::Kind::kFuse});
  }
}

void load_merges(const Gguf& gguf, const std::string& pre, TokenizerParts& parts) {
  const PreName* name = find_pre_name(pre);
  if (name == nullptr) throw Error("[tokenizer] the pre-tokenizer '{}' is not known", utf8_printable(pre));
  const bool byte_level = name->alphabet == PreAlphabet::kBytes;
  parts.kind = fmt::format("{}BPE, {}", byte_level ? "byte-level " : "", pre);
  fill_vocab(gguf, byte_level ? append_byte_level : nullptr, *parts.vocab);
  read_special(gguf, name->add_bos, false, parts);
  add_stages(gguf, *name, parts);
  BpeOptions options{.byte_level = byte_level, .byte_fallback = !byte_level, .ignore_merges = name->ignore_merges};
  if (!byte_level && parts.unknown) options.unknown = *parts.unknown;
  auto bpe = std::make_unique<Bpe>(*parts.vocab, options);
  add_merges(gguf, byte_level, *bpe);
  parts.model = std::move(bpe);
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const Gguf& gguf) {
  if (!gguf.has("tokenizer.ggml.model")) throw Error("[tokenizer] {} has no tokenizer", gguf.name());
  const std::string model = gguf.get_string("tokenizer.ggml.model");
  TokenizerParts parts;
  if (model == "llama") {
    load_sentencepiece(gguf, parts);
  } else if (model == "gpt2" || model == "whitespace") {
    load_merges(gguf, gguf.get_string("tokenizer.ggml.pre", "default"), parts);
  } else if (model == "gemma4") {
    load_merges(gguf, model, parts);
  } else if (model == "bert") {
    load_wordpiece(gguf, parts);
  } else if (model == "t5") {
    load_unigram(gguf, parts);
  } else if (model == "rwkv") {
    load_rwkv(gguf, parts);
  } else {
    throw Error(
        "[tokenizer] {}: the tokenizer '{}' is not known; llama, gpt2, bert, t5, rwkv, gemma4 and whitespace are",
        gguf.name(), utf8_printable(model));
  }
  add_tokens(gguf, parts);
  add_named_end_tokens(parts);
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace ingot
