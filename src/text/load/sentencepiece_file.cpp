// SentencePiece models (tokenizer.model): a protocol buffer, read field by field within its bounds.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "files/protobuf.h"
#include "text/chars.h"
#include "text/load/tokenizer_load.h"

namespace ingot {

namespace {

constexpr std::string_view kWhere = "SentencePiece";
constexpr uint64_t kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4;

struct Model {
  struct Entry {
    std::string_view text;
    float score = 0;
    uint64_t type = 1;
  };
  std::vector<Entry> pieces;
  uint64_t model_type = kUnigram;
  bool byte_fallback = false;
  std::array<int64_t, 4> ids = {0, 1, 2, -1};  // unknown, bos, eos, pad
  SentencePieceOptions options{.dummy_prefix = true, .squeeze_spaces = true};
};

Model::Entry read_piece(std::string_view message) {
  Model::Entry piece;
  for (ProtobufFields field(message, kWhere); field.next();) {
    if (field.is(1, 2)) piece.text = field.bytes();
    if (field.is(2, 5)) piece.score = field.as_float();
    if (field.is(3, 0)) piece.type = field.value();
  }
  return piece;
}

void read_trainer(std::string_view message, Model& model) {
  for (ProtobufFields field(message, kWhere); field.next();) {
    if (field.is(3, 0)) model.model_type = field.value();
    if (field.is(24, 0)) model.options.suffix = field.value() != 0;
    if (field.is(35, 0)) model.byte_fallback = field.value() != 0;
    for (int i = 0; i < 4; i++) {
      if (field.is(40 + i, 0)) model.ids[static_cast<size_t>(i)] = static_cast<int32_t>(field.value());
    }
  }
}

void read_rules(std::string_view message, Model& model) {
  for (ProtobufFields field(message, kWhere); field.next();) {
    if (field.is(2, 2)) model.options.charsmap = field.bytes();
    if (field.is(3, 0)) model.options.dummy_prefix = field.value() != 0;
    if (field.is(4, 0)) model.options.squeeze_spaces = field.value() != 0;
    if (field.is(5, 0)) model.options.escape_spaces = field.value() != 0;
  }
}

void refuse_denormalizer(std::string_view message) {
  for (ProtobufFields field(message, kWhere); field.next();) {
    if (field.is(2, 2) && !field.bytes().empty()) {
      throw Error("[tokenizer] SentencePiece: a charsmap for decoding is not supported");
    }
  }
}

Model read_model(std::string_view bytes) {
  Model model;
  bool trained = false;
  for (ProtobufFields field(bytes, kWhere); field.next();) {
    if (field.is(1, 2)) model.pieces.push_back(read_piece(field.bytes()));
    if (field.is(2, 2)) {
      trained = true;
      read_trainer(field.bytes(), model);
    }
    if (field.is(3, 2)) read_rules(field.bytes(), model);
    if (field.is(5, 2)) refuse_denormalizer(field.bytes());
    if (model.pieces.size() > kMaxTokens) throw Error("[tokenizer] SentencePiece: more than {} pieces", kMaxTokens);
  }
  // It stands behind the pieces and is never missing: a file that was cut between two pieces has none.
  if (!trained) throw Error("[tokenizer] SentencePiece: no trainer_spec");
  if (model.pieces.empty()) throw Error("[tokenizer] SentencePiece: no pieces");
  if (model.model_type != kUnigram && model.model_type != kBpe && model.model_type != kChar) {
    throw Error("[tokenizer] SentencePiece: the model type {}{} is not supported; unigram, BPE and char are",
                model.model_type, model.model_type == kWord ? " (word)" : "");
  }
  model.options.unigram = model.options.single = model.model_type == kUnigram;
  return model;
}

void add_piece(const Model& model, size_t index, TokenizerParts& parts) {
  const Model::Entry& piece = model.pieces[index];
  static constexpr TokenKind kKinds[] = {TokenKind::kNormal,  TokenKind::kNormal,      TokenKind::kUnknown,
                                         TokenKind::kControl, TokenKind::kUserDefined, TokenKind::kUnused,
                                         TokenKind::kByte};
  if (piece.type < 1 || piece.type > 6) {
    throw Error("[tokenizer] SentencePiece: piece {} has the type {}", index, piece.type);
  }
  const TokenKind kind = piece.text.empty() ? TokenKind::kUnused : kKinds[piece.type];
  const Token token = parts.vocab->add(piece.text, kind);
  if (kind == TokenKind::kUnknown && parts.unknown) {
    throw Error("[tokenizer] SentencePiece: the pieces {} and {} are both unknown", *parts.unknown, index);
  }
  if (kind == TokenKind::kUnknown) parts.unknown = token;
  // A model of characters never looks at longer pieces.
  const bool reachable =
      model.model_type != kChar || (!piece.text.empty() && piece.text.size() == char_length(piece.text[0]));
  const bool in_model = kind == TokenKind::kNormal || (kind == TokenKind::kUserDefined && model.options.unigram);
  if (in_model && reachable && !parts.vocab->index(token)) {
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

// Control pieces in raw text; user-defined ones where ▁ stands for the space already, or, with `inside`, by the model.
void add_matched_pieces(bool inside, TokenizerParts& parts) {
  for (Token token = 0; token < static_cast<Token>(parts.vocab->size()); token++) {
    const TokenKind kind = parts.vocab->kind(token);
    const bool special = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
    if (!(special || (kind == TokenKind::kUserDefined && !inside)) || parts.vocab->bytes(token).empty()) continue;
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
    add_piece(model, i, parts);
    scores.push_back(model.pieces[i].score);
  }
  const auto token = [&](size_t which) -> std::optional<Token> {
    const int64_t id = model.ids[which];
    return id >= 0 && static_cast<size_t>(id) < parts.vocab->size() ? std::optional<Token>(static_cast<Token>(id))
                                                                    : std::nullopt;
  };
  if (!parts.unknown) throw Error("[tokenizer] SentencePiece: no piece is unknown");
  parts.bos = token(1);
  parts.eos = token(2);
  parts.pad = token(3);
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const TokenizerConfig config = read_tokenizer_config(directory.empty() ? "." : directory);
  add_configured(config, parts);
  const SentencePieceOptions& options = model.options;
  add_matched_pieces(options.unigram || !options.charsmap.empty() || options.squeeze_spaces || !options.escape_spaces ||
                         options.suffix,
                     parts);
  build_sentencepiece(model.options, scores, parts);
  apply_tokenizer_config(config, parts);
  if (config.add_bos.value_or(true) && parts.bos) parts.prefix.push_back(*parts.bos);
  const bool t5 = config.tokenizer_class.find("T5Tokenizer") != std::string::npos;
  if (config.add_eos.value_or(t5) && parts.eos) parts.suffix.push_back(*parts.eos);
  add_named_end_tokens(parts);
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace ingot
