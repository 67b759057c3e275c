#include "text/load/tokenizer_json_models.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/model/byte_level.h"
#include "text/model/unigram.h"
#include "text/model/wordlevel.h"
#include "text/model/wordpiece.h"

namespace ingot {

// Ids may leave gaps, but not so large that a short file asks for a long table.
JsonTokens::Entry& JsonTokens::place(std::string_view text, int64_t id) {
  const auto limit = static_cast<int64_t>(std::min(kMaxTokens, 2 * tokens_ + 65536));
  if (id < 0 || id >= limit) {
    throw Error("[tokenizer] token '{}' has the id {}, 0 to {} allowed", utf8_printable(text), id, limit - 1);
  }
  const auto i = static_cast<size_t>(id);
  if (i >= entries_.size()) entries_.resize(i + 1);
  if (entries_[i].there && entries_[i].text != text) {
    throw Error("[tokenizer] the id {} is both '{}' and '{}'", id, utf8_printable(entries_[i].text),
                utf8_printable(text));
  }
  return entries_[i];
}

void JsonTokens::add(std::string_view text, int64_t id) {
  Entry& entry = place(text, id);
  if (entry.there) throw Error("[tokenizer] '{}' is in the vocabulary twice", utf8_printable(text));
  entry = {text, text, true, true, false, false};
}

void JsonTokens::add(const AddedToken& token, std::string_view shown) {
  Entry& entry = place(token.content, token.id);
  if (!entry.there) entry = {token.content, shown, true, false, false, false};
  entry.shown = shown;
  entry.added = true;
  entry.special = entry.special || token.special;
}

void JsonTokens::fill(bool byte_level, Vocab& vocab) const {
  size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.shown.size();
  vocab.reserve(entries_.size(), bytes);
  std::string decoded;
  for (const Entry& entry : entries_) {
    decoded.clear();
    const std::string_view text = entry.in_model ? entry.text : entry.shown;
    const bool mapped = byte_level && append_byte_level(text, decoded);
    TokenKind kind = entry.special ? TokenKind::kControl : entry.added ? TokenKind::kUserDefined : TokenKind::kNormal;
    if (!entry.there) kind = TokenKind::kAbsent;
    const bool reachable = entry.in_model && !entry.text.empty() && (mapped || !byte_level);
    if (kind == TokenKind::kNormal && !reachable) kind = TokenKind::kUnused;
    const Token token = vocab.add(mapped ? decoded : text, kind);
    if (text != entry.shown) {
      decoded.clear();
      const bool shown_mapped = byte_level && append_byte_level(entry.shown, decoded);
      vocab.show_as(token, shown_mapped ? decoded : std::string(entry.shown));
    }
    if (reachable && !vocab.index(token)) {
      throw Error("[tokenizer] '{}' is in the vocabulary twice", utf8_printable(entry.text));
    }
  }
}

namespace {

const JsonObject& vocab_object(const JsonObject& model) {
  const JsonObject* vocab = find_object(model, "vocab");
  if (vocab == nullptr || vocab->empty()) throw Error("[tokenizer] the model has no vocab");
  return *vocab;
}

std::string_view as_view(const boost::json::string& s) { return {s.data(), s.size()}; }

// A vocab of names and ids, and the added tokens.
void fill_named(const JsonObject& model, const std::vector<AddedToken>& added, const std::vector<std::string>& shown,
                Vocab& out) {
  const JsonObject& vocab = vocab_object(model);
  JsonTokens tokens(vocab.size() + added.size());
  for (const auto& member : vocab) {
    const std::string_view text(member.key().data(), member.key().size());
    const int64_t* id = member.value().if_int64();
    if (id == nullptr) throw Error("[tokenizer] the id of '{}' is no integer", utf8_printable(text));
    tokens.add(text, *id);
  }
  for (size_t i = 0; i < added.size(); i++) tokens.add(added[i], shown[i]);
  tokens.fill(false, out);
}

// A vocab of pairs, a piece and its score, whose place is the id. Returns the scores.
std::vector<double> fill_scored(const JsonObject& model, const std::vector<AddedToken>& added,
                                const std::vector<std::string>& shown, Vocab& out) {
  const JsonArray* vocab = find_array(model, "vocab");
  if (vocab == nullptr || vocab->empty()) throw Error("[tokenizer] the Unigram model has no vocab");
  JsonTokens tokens(vocab->size() + added.size());
  std::vector<double> scores;
  for (size_t i = 0; i < vocab->size(); i++) {
    const JsonArray* pair = (*vocab)[i].if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string() || !(*pair)[1].is_number()) {
      throw Error("[tokenizer] entry {} of the vocab is no piece with a score", i);
    }
    tokens.add(as_view((*pair)[0].as_string()), static_cast<int64_t>(i));
    scores.push_back((*pair)[1].to_number<double>());
  }
  for (size_t i = 0; i < added.size(); i++) tokens.add(added[i], shown[i]);
  tokens.fill(false, out);
  return scores;
}

// The model's own token of that name; kNoToken where it has none, which counts only when a text needs it.
Token unknown_token(const JsonObject& model, TokenizerParts& parts) {
  const Token token = parts.vocab->find(get_string(model, "unk_token", ""));
  if (token != kNoToken) parts.unknown = token;
  return token;
}

void read_unigram(const JsonObject& model, const std::vector<double>& scores, TokenizerParts& parts) {
  UnigramOptions options;
  options.byte_fallback = get_bool(model, "byte_fallback", false);
  const Json* unknown = find(model, "unk_id");
  if (unknown != nullptr && !unknown->is_null()) {
    options.unknown = static_cast<Token>(as_int(*unknown, "unk_id", 0, static_cast<int64_t>(scores.size()) - 1));
    parts.unknown = options.unknown;
  }
  parts.model = std::make_unique<Unigram>(*parts.vocab, options, scores);
  parts.kind = "Unigram, tokenizer.json";
}

void read_wordpiece(const JsonObject& model, TokenizerParts& parts) {
  WordPieceOptions options;
  options.unknown = unknown_token(model, parts);
  options.prefix = get_string(model, "continuing_subword_prefix", "##");
  options.max_characters = static_cast<size_t>(get_int(model, "max_input_chars_per_word", 100, 0, INT64_MAX));
  parts.model = std::make_unique<WordPiece>(*parts.vocab, options);
  parts.kind = "WordPiece, tokenizer.json";
}

}  // namespace

std::string model_type(const JsonObject& model) {
  if (find(model, "type") != nullptr) return get_string(model, "type");
  // Files of before the type was written.
  if (find(model, "merges") != nullptr) return "BPE";
  if (find_array(model, "vocab") != nullptr) return "Unigram";
  return find(model, "max_input_chars_per_word") != nullptr ? "WordPiece" : "WordLevel";
}

void read_other_model(const std::string& type, const JsonObject& model, const std::vector<AddedToken>& added,
                      const std::vector<std::string>& shown, TokenizerParts& parts) {
  if (type == "Unigram") {
    read_unigram(model, fill_scored(model, added, shown, *parts.vocab), parts);
  } else if (type == "WordPiece") {
    fill_named(model, added, shown, *parts.vocab);
    read_wordpiece(model, parts);
  } else if (type == "WordLevel") {
    fill_named(model, added, shown, *parts.vocab);
    parts.model = std::make_unique<WordLevel>(*parts.vocab, unknown_token(model, parts));
    parts.kind = "WordLevel, tokenizer.json";
  } else {
    throw Error("[tokenizer] the model '{}' is not supported", utf8_printable(type));
  }
}

}  // namespace ingot
