#include "text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {

namespace {

// Below this many bytes a text hardly repeats a word, and clearing the cache would cost more than it gives.
constexpr size_t kCacheFrom = 2048;

size_t first_invalid(std::string_view text) {
  size_t pos = 0;
  for (uint32_t cp = 0; pos < text.size();) {
    const size_t length = utf8_decode(text, pos, cp);
    if (length == 0) break;
    pos += length;
  }
  return pos;
}

}  // namespace

// The memory of one call of encode: nothing is allocated for each word.
struct Tokenizer::Scratch {
  std::vector<Segment> segments;
  std::vector<Segment> normalized_segments;
  std::string normalized;
  PreTokenizer::Scratch pieces;
  ModelScratch model;
};

Tokenizer::Tokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
  std::vector<Token>& ends = parts_.end_tokens;
  if (parts_.eos) ends.push_back(*parts_.eos);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

std::vector<Token> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw Error("[tokenizer] a text of {} bytes, less than 2 GiB allowed", text.size());
  }
  if (!utf8_valid(text)) throw Error("[tokenizer] the text is not UTF-8 at byte {}", first_invalid(text));

  std::vector<Token> out;
  out.reserve(text.size() / 4 + 8);
  if (options.add_special) out.insert(out.end(), parts_.prefix.begin(), parts_.prefix.end());
  Scratch scratch;
  if (text.size() >= kCacheFrom) scratch.model.cache.emplace();
  parts_.added.split(text, false, {options.parse_special, options.plain}, scratch.segments);
  for (const Segment& segment : scratch.segments) {
    if (segment.token != kNoToken) {
      out.push_back(segment.token);
      continue;
    }
    encode_segment(text, segment, options, scratch, out);
  }
  if (options.add_special) out.insert(out.end(), parts_.suffix.begin(), parts_.suffix.end());
  return out;
}

void Tokenizer::encode_segment(std::string_view whole, const Segment& part, const EncodeOptions& options,
                               Scratch& scratch, std::vector<Token>& out) const {
  const std::string_view text = whole.substr(part.begin, part.end - part.begin);
  const bool at_start = part.begin == 0;
  const std::string_view normalized = parts_.normalizer.apply(text, scratch.normalized);
  if (!parts_.added.any_normalized()) {
    encode_text(normalized, at_start, scratch, out);
    return;
  }
  AddedTokens::Options added{options.parse_special, options.plain, part.begin};
  static constexpr TextRange kEverything[] = {{0, SIZE_MAX}};
  if (normalized != text && overlaps(options.plain, part.begin, part.end)) {
    // Offsets do not survive normalization: what users wrote any byte of is theirs as a whole.
    added.plain = kEverything;
  }
  parts_.added.split(normalized, true, added, scratch.normalized_segments);
  for (const Segment& segment : scratch.normalized_segments) {
    if (segment.token != kNoToken) {
      out.push_back(segment.token);
    } else {
      encode_text(normalized.substr(segment.begin, segment.end - segment.begin), at_start && segment.begin == 0,
                  scratch, out);
    }
  }
}

void Tokenizer::encode_text(std::string_view text, bool at_start, Scratch& scratch, std::vector<Token>& out) const {
  text = parts_.pre_tokenizer.split(text, at_start, scratch.pieces);
  for (const Piece piece : scratch.pieces.pieces) {
    parts_.model->encode(text.substr(piece.begin, piece.end - piece.begin), scratch.model, out);
  }
}

void Tokenizer::check(Token token) const {
  if (!contains(token)) {
    throw Error("[tokenizer] {} is no token: the vocabulary has {}", token, parts_.vocab->size());
  }
}

bool Tokenizer::contains(Token token) const {
  return parts_.vocab->contains(token) && parts_.vocab->kind(token) != TokenKind::kAbsent;
}

bool Tokenizer::is_special(Token token) const {
  check(token);
  const TokenKind kind = parts_.vocab->kind(token);
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

void Tokenizer::append_token(Token token, bool show_special, Decoder::State& state, std::string& out) const {
  if (is_special(token) && !show_special) return;
  parts_.decoder.push(parts_.vocab->bytes(token), state, out);
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool show_special) const {
  std::string text;
  Decoder::State state;
  for (const Token token : tokens) append_token(token, show_special, state, text);
  finish_text(state, text);
  return text;
}

std::string Tokenizer::token_bytes(Token token) const {
  const bool special = is_special(token);
  const std::string_view entry = parts_.vocab->bytes(token);
  return special ? std::string(entry) : parts_.decoder.bytes(entry);
}

std::optional<Token> Tokenizer::token_id(std::string_view text) const {
  if (const AddedToken* added = parts_.added.find(text)) return added->id;
  const Token token = parts_.vocab->find(text);
  return token == kNoToken ? std::nullopt : std::optional<Token>(token);
}

}  // namespace ingot
