// SentencePiece models (tokenizer.model): a protocol buffer, read field by field within its bounds.
#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_load.h"

namespace ingot {

namespace {

uint32_t load_u32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; i++) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

// One field of a message after the other. Wire types 0 (varint), 1 and 5 (fixed), 2 (bytes); groups are refused.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    number = static_cast<int>(std::min<uint64_t>(tag >> 3, INT32_MAX));
    wire = static_cast<int>(tag & 7);
    switch (wire) {
      case 0:
        value = varint();
        break;
      case 1:
        bytes = take(8);
        break;
      case 2:
        bytes = take(varint());
        break;
      case 5:
        bytes = take(4);
        break;
      default:
        throw Error("[tokenizer] SentencePiece: field {} has the wire type {}", number, wire);
    }
    return true;
  }

  int number = 0;
  int wire = 0;
  uint64_t value = 0;      // wire 0
  std::string_view bytes;  // wires 1, 2, 5

  bool is(int field, int type) const {
    if (number != field) return false;
    if (wire != type) throw Error("[tokenizer] SentencePiece: field {} has the wire type {}", number, wire);
    return true;
  }

 private:
  uint64_t varint() {
    uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      result |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return result;
    }
    throw Error("[tokenizer] SentencePiece: a number of more than ten bytes");
  }
  std::string_view take(uint64_t n) {
    if (n > rest_.size()) throw Error("[tokenizer] SentencePiece: {} bytes wanted, {} left", n, rest_.size());
    const std::string_view result = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return result;
  }

  std::string_view rest_;
};

struct Model {
  struct Entry {
    std::string_view text;
    float score = 0;
    uint64_t type = 1;
  };
  std::vector<Entry> pieces;
  uint64_t model_type = 1;                     // unigram
  std::array<int64_t, 4> ids = {0, 1, 2, -1};  // unknown, bos, eos, pad
  SentencePieceOptions options{.dummy_prefix = true, .squeeze_spaces = true};
};

Model::Entry read_piece(std::string_view message) {
  Model::Entry piece;
  for (Fields field(message); field.next();) {
    if (field.is(1, 2)) piece.text = field.bytes;
    if (field.is(2, 5)) piece.score = std::bit_cast<float>(load_u32(field.bytes));
    if (field.is(3, 0)) piece.type = field.value;
  }
  return piece;
}

void read_trainer(std::string_view message, Model& model) {
  for (Fields field(message); field.next();) {
    if (field.is(3, 0)) model.model_type = field.value;
    if (field.is(24, 0) && field.value != 0) {
      throw Error("[tokenizer] SentencePiece: treat_whitespace_as_suffix is not supported");
    }
    for (int i = 0; i < 4; i++) {
      if (field.is(40 + i, 0)) model.ids[static_cast<size_t>(i)] = static_cast<int32_t>(field.value);
    }
  }
}

void read_rules(std::string_view message, Model& model) {
  for (Fields field(message); field.next();) {
    if (field.is(2, 2) && !field.bytes.empty()) {
      throw Error("[tokenizer] SentencePiece: a normalization charsmap is not supported");
    }
    if (field.is(3, 0)) model.options.dummy_prefix = field.value != 0;
    if (field.is(4, 0)) model.options.squeeze_spaces = field.value != 0;
    if (field.is(5, 0) && field.value == 0) {
      throw Error("[tokenizer] SentencePiece: escape_whitespaces = false is not supported");
    }
  }
}

Model read_model(std::string_view bytes) {
  Model model;
  for (Fields field(bytes); field.next();) {
    if (field.is(1, 2)) model.pieces.push_back(read_piece(field.bytes));
    if (field.is(2, 2)) read_trainer(field.bytes, model);
    if (field.is(3, 2)) read_rules(field.bytes, model);
    if (model.pieces.size() > kMaxTokens) throw Error("[tokenizer] SentencePiece: more than {} pieces", kMaxTokens);
  }
  if (model.pieces.empty()) throw Error("[tokenizer] SentencePiece: no pieces");
  if (model.model_type != 2) {
    throw Error("[tokenizer] SentencePiece: the model type {} is not supported, 2 (BPE) is", model.model_type);
  }
  return model;
}

void add_piece(const Model::Entry& piece, size_t index, TokenizerParts& parts) {
  static constexpr TokenKind kKinds[] = {TokenKind::kNormal,  TokenKind::kNormal,      TokenKind::kUnknown,
                                         TokenKind::kControl, TokenKind::kUserDefined, TokenKind::kUnused,
                                         TokenKind::kByte};
  if (piece.type < 1 || piece.type > 6) {
    throw Error("[tokenizer] SentencePiece: piece {} has the type {}", index, piece.type);
  }
  const TokenKind kind = piece.text.empty() ? TokenKind::kUnused : kKinds[piece.type];
  const Token token = parts.vocab->add(piece.text, kind);
  if (kind == TokenKind::kNormal && !parts.vocab->index(token)) {
    throw Error("[tokenizer] SentencePiece: piece {} ('{}') is there twice", index, utf8_printable(piece.text));
  }
}

// Tokens that the configuration adds behind the pieces, or whose flags it knows.
void add_configured(const TokenizerConfig& config, TokenizerParts& parts) {
  const size_t pieces = parts.vocab->size();
  std::vector<const AddedToken*> behind;
  for (const AddedToken& token : config.added) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= pieces + 65536) throw Error("[tokenizer] added token {}: there are {} pieces", token.id, pieces);
    if (id >= pieces) {
      if (id - pieces >= behind.size()) behind.resize(id - pieces + 1);
      behind[id - pieces] = &token;
    } else if (parts.vocab->bytes(token.id) != token.content) {
      throw Error("[tokenizer] token {} is both '{}' and '{}'", token.id, utf8_printable(parts.vocab->bytes(token.id)),
                  utf8_printable(token.content));
    }
    AddedToken raw = token;
    raw.normalized = false;
    parts.added.add(std::move(raw), Normalizer());
  }
  for (const AddedToken* token : behind) {
    const TokenKind kind = token == nullptr ? TokenKind::kAbsent
                           : token->special ? TokenKind::kControl
                                            : TokenKind::kUserDefined;
    parts.vocab->add(token == nullptr ? std::string_view() : std::string_view(token->content), kind);
  }
}

// Control pieces in raw text; user-defined ones where ▁ stands for the space already.
void add_matched_pieces(TokenizerParts& parts) {
  for (Token token = 0; token < static_cast<Token>(parts.vocab->size()); token++) {
    const TokenKind kind = parts.vocab->kind(token);
    const bool special = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
    if (!(special || kind == TokenKind::kUserDefined) || parts.vocab->bytes(token).empty()) continue;
    const std::string content(parts.vocab->bytes(token));
    parts.added.add({.id = token, .content = content, .special = special, .normalized = !special}, Normalizer());
  }
}

}  // namespace

std::unique_ptr<Tokenizer> parse_sentencepiece_model(std::string_view bytes, const std::string& path) {
  const Model model = read_model(bytes);
  TokenizerParts parts;
  size_t total = 0;
  for (const Model::Entry& piece : model.pieces) total += piece.text.size();
  parts.vocab->reserve(model.pieces.size(), total);
  std::vector<float> scores;
  scores.reserve(model.pieces.size());
  for (size_t i = 0; i < model.pieces.size(); i++) {
    add_piece(model.pieces[i], i, parts);
    scores.push_back(model.pieces[i].score);
  }
  const auto token = [&](size_t which) -> std::optional<Token> {
    const int64_t id = model.ids[which];
    return id >= 0 && static_cast<size_t>(id) < parts.vocab->size() ? std::optional<Token>(static_cast<Token>(id))
                                                                    : std::nullopt;
  };
  parts.unknown = token(0);
  parts.bos = token(1);
  parts.eos = token(2);
  parts.pad = token(3);
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const TokenizerConfig config = read_tokenizer_config(directory.empty() ? "." : directory);
  add_configured(config, parts);
  add_matched_pieces(parts);
  build_sentencepiece(model.options, scores, parts);
  apply_tokenizer_config(config, parts);
  if (config.add_bos.value_or(true) && parts.bos) parts.prefix.push_back(*parts.bos);
  if (config.add_eos.value_or(false) && parts.eos) parts.suffix.push_back(*parts.eos);
  add_named_end_tokens(parts);
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace ingot
