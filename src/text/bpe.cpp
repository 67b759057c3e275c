#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"

namespace ingot {

namespace {

constexpr std::string_view kUnderline = "\xE2\x96\x81";  // ▁, which stands for a space

// Orders floats as unsigned numbers, the highest score first.
uint32_t rank_of_score(float score) {
  const auto bits = std::bit_cast<uint32_t>(score == 0 ? 0.0f : score);
  const uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

// Whether another ▁ stands before text[at].
bool follows_underline(std::string_view text, size_t at) {
  return at >= kUnderline.size() && text.substr(at - kUnderline.size()).starts_with(kUnderline);
}

}  // namespace

void MergeTable::reserve(size_t merges) {
  size_t slots = 16;
  while (slots < merges * 2) slots *= 2;
  if (slots > slots_.size()) rehash(slots);
}

void MergeTable::rehash(size_t slots) {
  std::vector<Slot> old(slots, Slot{kFree, kNoMerge});
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.key == kFree) continue;
    size_t i = place(slot.key);
    while (slots_[i].key != kFree) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = slot;
  }
}

void MergeTable::add(Token left, Token right, Merge merge) {
  if ((used_ + 1) * 2 > slots_.size()) rehash(slots_.empty() ? 16 : slots_.size() * 2);
  const uint64_t key = key_of(left, right);
  size_t i = place(key);
  for (; slots_[i].key != kFree; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].key == key) return;
  }
  slots_[i] = {key, merge};
  used_++;
}

Bpe::Bpe(const Vocab& vocab, BpeOptions options, std::span<const float> scores)
    : vocab_(&vocab), options_(std::move(options)) {
  bytes_.fill(kNoToken);
  ascii_.fill(kNoToken);
  for (int i = 0; i < 256; i++) {
    const char byte = static_cast<char>(i);
    const std::string name = fmt::format("<0x{:02X}>", i);
    if (options.byte_level) {
      bytes_[static_cast<size_t>(i)] = vocab.find(std::string_view(&byte, 1));
    } else if (options.byte_fallback) {
      bytes_[static_cast<size_t>(i)] = vocab.find(name);
    }
    if (i < 128) ascii_[static_cast<size_t>(i)] = vocab.find(std::string_view(&byte, 1));
  }
  for (Token& token : bytes_) token = token != kNoToken && takes_part(token) ? token : kNoToken;
  for (Token& token : ascii_) token = token != kNoToken && takes_part(token) ? token : kNoToken;
  const auto n = static_cast<Token>(vocab.size());
  if (options.by_score) {
    score_ranks_.reserve(scores.size());
    for (size_t i = 0; i < scores.size(); i++) {
      if (!std::isfinite(scores[i])) throw Error("[tokenizer] the score of token {} is not a finite number", i);
      score_ranks_.push_back(rank_of_score(scores[i]));
    }
  }
  if (options.byte_level) return;
  for (Token token = 0; token < n; token++) {
    if (options.by_score && vocab.kind(token) == TokenKind::kByte) {
      const auto byte = parse_byte_token(vocab.bytes(token));
      if (byte) bytes_[*byte] = token;
    }
    const std::string_view text = vocab.bytes(token);
    for (size_t at = text.find(kUnderline, 1); at != text.npos; at = text.find(kUnderline, at + 1)) {
      if (!follows_underline(text, at)) joins_underline_[static_cast<unsigned char>(text[at - 1])] = true;
    }
  }
  if (vocab.find(kUnderline) == kNoToken) joins_underline_.fill(true);  // unknown, it may fuse with its neighbours
}

// Text never becomes a control or unknown token, whatever the merges say.
bool Bpe::takes_part(Token token) const {
  const TokenKind kind = vocab_->kind(token);
  return kind != TokenKind::kControl && kind != TokenKind::kUnknown;
}

void Bpe::add_merge(std::string_view left, std::string_view right) {
  const Token a = vocab_->find(left);
  const Token b = vocab_->find(right);
  joined_.assign(left).append(right.substr(std::min(options_.prefix.size(), right.size())));
  // Merges mostly stand in the order of what they make: the token after the last one is tried before the table, whose
  // every look is a cache miss. Saves a quarter of the time to load.
  const Token guess = last_whole_ + 1;
  const bool guessed =
      vocab_->contains(guess) && vocab_->kind(guess) == TokenKind::kNormal && vocab_->bytes(guess) == joined_;
  const Token whole = guessed ? guess : vocab_->find(joined_);
  last_whole_ = whole;
  if (a == kNoToken || b == kNoToken || whole == kNoToken) {
    const std::string_view missing = a == kNoToken ? left : b == kNoToken ? right : std::string_view(joined_);
    throw Error("[tokenizer] merge {} ('{}' + '{}'): '{}' is not in the vocabulary", next_rank_, utf8_printable(left),
                utf8_printable(right), utf8_printable(missing));
  }
  add_merge(a, b, whole);
}

void Bpe::add_merge(Token left, Token right, Token whole) {
  if (takes_part(whole)) table_.add(left, right, {next_rank_, whole});
  next_rank_++;
}

Token Bpe::character(std::string_view text) const {
  if (text.size() == 1) return ascii_[static_cast<unsigned char>(text[0])];
  const Token token = vocab_->find(text);
  return token != kNoToken && takes_part(token) ? token : kNoToken;
}

void Bpe::start_bytes(std::string_view word, Symbols& symbols) const {
  Token pending = kNoToken;
  for (size_t i = 0; i < word.size(); i++) {
    const Token token = bytes_[static_cast<unsigned char>(word[i])];
    if (token != kNoToken) {
      if (pending != kNoToken) symbols.push(pending, i);
      pending = kNoToken;
      symbols.push(token, i + 1);
    } else if (options_.unknown != kNoToken) {
      if (pending != kNoToken && !options_.fuse_unknown) symbols.push(pending, i);
      pending = options_.unknown;
    }
  }
  if (pending != kNoToken) symbols.push(pending, word.size());
}

bool Bpe::push_fallback(std::string_view text, size_t end, Symbols& symbols) const {
  if (!options_.byte_fallback) return false;
  for (const char c : text) {
    if (bytes_[static_cast<unsigned char>(c)] == kNoToken) return false;
  }
  for (const char c : text) symbols.push(bytes_[static_cast<unsigned char>(c)], end);
  return true;
}

void Bpe::start_characters(std::string_view word, Symbols& symbols) const {
  Token pending = kNoToken;  // an unknown token not yet written: bytes go before it, known characters behind
  std::string name;
  for (size_t pos = 0; pos < word.size();) {
    std::string_view text = word.substr(pos, char_length(word[pos]));
    const size_t end = pos + text.size();
    if (affixed()) {
      name.assign(pos > 0 ? options_.prefix : "").append(text).append(end == word.size() ? options_.suffix : "");
      text = name;
    }
    const Token token = character(text);
    if (token != kNoToken) {
      if (pending != kNoToken) symbols.push(pending, pos);
      pending = kNoToken;
      symbols.push(token, end);
    } else if (!push_fallback(text, end, symbols) && options_.unknown != kNoToken) {
      if (pending != kNoToken && !options_.fuse_unknown) symbols.push(pending, pos);
      pending = options_.unknown;
    }
    pos = end;
  }
  if (pending != kNoToken) symbols.push(pending, word.size());
}

// Symbols that no token stands for become bytes or the unknown token, neighbours of which are one.
void Bpe::emit_scored(std::string_view word, const Symbols& symbols, std::vector<Token>& out) const {
  bool was_unknown = false;
  for (size_t i = 0; i < symbols.size(); i++) {
    bool unknown = false;
    if (symbols.tokens[i] != kNoToken) {
      out.push_back(symbols.tokens[i]);
    } else {
      const size_t before = out.size();
      for (const char c : word.substr(symbols.begins[i], symbols.begins[i + 1] - symbols.begins[i])) {
        const Token byte = bytes_[static_cast<unsigned char>(c)];
        unknown = unknown || byte == kNoToken;
        out.push_back(byte);
      }
      if (unknown) {
        out.resize(before);
        if (!was_unknown && options_.unknown != kNoToken) out.push_back(options_.unknown);
      }
    }
    was_unknown = unknown;
  }
}

void Bpe::merge_part(std::string_view part, ModelScratch& scratch, std::vector<Token>& out) const {
  Symbols& symbols = scratch.symbols;
  symbols.clear();
  if (options_.by_score) {
    for (size_t pos = 0; pos < part.size();) {
      const size_t end = pos + char_length(part[pos]);
      symbols.push(character(part.substr(pos, end - pos)), end);
      pos = end;
    }
    const size_t longest = vocab_->longest();
    merge_symbols(symbols, [&](Token, Token, uint32_t begin, uint32_t end) {
      if (end - begin > longest) return kNoMerge;
      const Token token = vocab_->find(part.substr(begin, end - begin));
      return token == kNoToken ? kNoMerge : Merge{score_ranks_[static_cast<size_t>(token)], token};
    });
    emit_scored(part, symbols, out);
    return;
  }
  if (options_.byte_level) {
    start_bytes(part, symbols);
  } else {
    start_characters(part, symbols);
  }
  merge_symbols(symbols, [&](Token left, Token right, uint32_t, uint32_t) { return table_.find(left, right); });
  out.insert(out.end(), symbols.tokens.begin(), symbols.tokens.end());
}

void Bpe::encode_part(std::string_view part, ModelScratch& scratch, std::vector<Token>& out) const {
  if (scratch.cache && scratch.cache->find(part, out)) return;
  const size_t before = out.size();
  const Token whole = options_.ignore_merges ? vocab_->find(part) : kNoToken;
  if (whole != kNoToken && takes_part(whole)) {
    out.push_back(whole);
  } else {
    merge_part(part, scratch, out);
  }
  if (scratch.cache) scratch.cache->put(part, std::span(out).subspan(before));
}

void Bpe::encode(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const {
  if (options_.byte_level || options_.ignore_merges || affixed()) {
    encode_part(word, scratch, out);
    return;
  }
  // No token has ▁ behind most characters: no merge reaches over such a place, and the parts are independent. So a
  // text without a pre-tokenizer is not one word of its full length.
  size_t begin = 0;
  for (size_t at = word.find(kUnderline, 1); at != word.npos; at = word.find(kUnderline, at + 1)) {
    if (follows_underline(word, at) || joins_underline_[static_cast<unsigned char>(word[at - 1])]) continue;
    encode_part(word.substr(begin, at - begin), scratch, out);
    begin = at;
  }
  encode_part(word.substr(begin), scratch, out);
}

}  // namespace ingot
