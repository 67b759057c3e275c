#include "text/model/bpe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"

namespace ingot {

namespace {

// Words of bytes up to this length are merged as a whole: they are mostly one character or two.
constexpr size_t kUncut = 12;

// Of the words in the cache: a whole word's tokens may be those of ignore_merges, a part's are not.
constexpr uint8_t kWholeWord = 0, kPart = 1;

// Orders floats as unsigned numbers, the highest score first.
uint32_t rank_of_score(float score) {
  const auto bits = std::bit_cast<uint32_t>(score == 0 ? 0.0f : score);
  const uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

bool is_ascii(std::string_view text) {
  const char* p = text.data();
  size_t n = text.size();
  uint64_t bits = 0;
  for (; n >= 8; p += 8, n -= 8) bits |= load_u64(p);
  for (; n > 0; p++, n--) bits |= static_cast<unsigned char>(*p);
  return (bits & 0x8080808080808080u) == 0;
}

PackedChar packed_char(std::string_view text, size_t pos) {
  PackedChar packed{0, static_cast<uint32_t>(char_length(text[pos]))};
  for (size_t i = 0; i < packed.length; i++) {
    packed.bytes = packed.bytes << 8 | static_cast<unsigned char>(text[pos + i]);
  }
  return packed;
}

}  // namespace

void MergeTable::reserve(size_t merges) {
  pairs_.reserve(merges);
  size_t slots = 16;
  while (slots / 3 * 2 < merges) slots *= 2;
  if (slots > slots_.size()) rehash(slots);
}

void MergeTable::rehash(size_t slots) {
  slots_.assign(slots, Slot{0, kNoRank});
  mask_ = slots - 1;
  for (size_t rank = 0; rank < pairs_.size(); rank++) {
    if (pairs_[rank].whole == kNoToken) continue;
    const uint64_t hash = hash_of(pairs_[rank].left, pairs_[rank].right);
    size_t i = hash & mask_;
    while (slots_[i].rank != kNoRank) i = (i + 1) & mask_;
    slots_[i] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(rank)};
  }
}

void MergeTable::add(Token left, Token right, Token whole) {
  if (pairs_.size() >= kNoRank) throw Error("[tokenizer] more than {} merges", kNoRank);
  if (used_ >= slots_.size() / 3 * 2) rehash(slots_.empty() ? 16 : slots_.size() * 2);
  const uint64_t hash = hash_of(left, right);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t i = hash & mask_;
  for (; slots_[i].rank != kNoRank; i = (i + 1) & mask_) {
    const Pair& pair = pairs_[slots_[i].rank];
    if (slots_[i].tag == tag && pair.left == left && pair.right == right) return skip();
  }
  slots_[i] = {tag, static_cast<uint32_t>(pairs_.size())};
  pairs_.push_back({left, right, whole});
  used_++;
}

void CharacterTokens::add(uint32_t cp, Token token) {
  const size_t page = cp >> 8;
  if (page >= pages_.size()) pages_.resize(page + 1);
  if (pages_[page] == 0) {
    tokens_.resize(tokens_.size() + 256, kNoToken);
    pages_[page] = static_cast<uint16_t>(tokens_.size() / 256);
  }
  tokens_[(pages_[page] - size_t{1}) << 8 | (cp & 0xFF)] = token;
}

// Byte-level words are short but where characters are long: those alone are cut.
Bpe::Bpe(const Vocab& vocab, BpeOptions options, std::span<const float> scores)
    : vocab_(&vocab), options_(std::move(options)), cuts_(options_.byte_level ? 0x80 : 0) {
  bytes_.fill(kNoToken);
  for (int i = 0; i < 256; i++) {
    const char byte = static_cast<char>(i);
    if (options_.byte_level) {
      bytes_[static_cast<size_t>(i)] = vocab.find(std::string_view(&byte, 1));
    } else if (options_.byte_fallback) {
      bytes_[static_cast<size_t>(i)] = vocab.find(fmt::format("<0x{:02X}>", i));
    }
  }
  for (Token& token : bytes_) token = token != kNoToken && takes_part(token) ? token : kNoToken;
  if (options_.byte_level) byte_merges_.assign(size_t{1} << 16, kNoMerge);
  if (options_.by_score) {
    score_ranks_.reserve(scores.size());
    for (size_t i = 0; i < scores.size(); i++) {
      if (!std::isfinite(scores[i])) throw Error("[tokenizer] the score of token {} is not a finite number", i);
      score_ranks_.push_back(rank_of_score(scores[i]));
    }
  }
  index_tokens();
  all_bytes_ = std::none_of(bytes_.begin(), bytes_.end(),
                            [&](Token token) { return token == kNoToken || vocab.kind(token) == TokenKind::kControl; });
}

void Bpe::index_tokens() {
  const bool by_name = options_.ignore_merges || affixed();
  for (Token token = 0; token < static_cast<Token>(vocab_->size()); token++) {
    const std::string_view text = vocab_->bytes(token);
    if (by_name && vocab_->kind(token) == TokenKind::kControl && vocab_->find(text) == token) has_control_ = true;
    if (options_.byte_fallback && vocab_->kind(token) == TokenKind::kByte) {
      const auto byte = parse_byte_token(text);
      if (byte) bytes_[*byte] = token;
    }
    if (text.empty() || (options_.byte_level && is_ascii(text))) continue;
    cuts_.add(text);
    uint32_t cp = 0;
    const bool character = !options_.byte_level && text.size() <= 4 && utf8_decode(text, 0, cp) == text.size();
    if (character && vocab_->find(text) == token && takes_part(token)) characters_.add(cp, token);
  }
}

// Text never becomes an unknown token, whatever the merges say.
bool Bpe::takes_part(Token token) {
  const TokenKind kind = vocab_->kind(token);
  has_control_ = has_control_ || kind == TokenKind::kControl;
  return kind != TokenKind::kUnknown;
}

Bpe::MergeIds Bpe::merge_ids(std::string_view left, std::string_view right, Token guess, std::string& joined) const {
  joined.assign(left).append(right.substr(std::min(options_.prefix.size(), right.size())));
  const bool guessed =
      vocab_->contains(guess) && vocab_->kind(guess) == TokenKind::kNormal && vocab_->bytes(guess) == joined;
  return {vocab_->find(left), vocab_->find(right), guessed ? guess : vocab_->find(joined)};
}

void Bpe::add_merge(std::string_view left, std::string_view right) {
  // Merges mostly stand in the order of what they make: the token after the last one is tried before the table, whose
  // every look is a cache miss. Saves a quarter of the time to load.
  const MergeIds ids = merge_ids(left, right, last_whole_ + 1, joined_);
  last_whole_ = ids.whole;
  if (!ids.complete()) {
    const std::string_view missing = ids.left == kNoToken    ? left
                                     : ids.right == kNoToken ? right
                                                             : std::string_view(joined_);
    throw Error("[tokenizer] merge {} ('{}' + '{}'): '{}' is not in the vocabulary", table_.size(),
                utf8_printable(left), utf8_printable(right), utf8_printable(missing));
  }
  add_merge(ids.left, ids.right, ids.whole);
}

void Bpe::add_merge(Token left, Token right, Token whole) {
  if (!takes_part(whole)) return table_.skip();
  table_.add(left, right, whole);
  const std::string_view text = vocab_->bytes(whole);
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  if (options_.byte_level && text.size() == 2) byte_merges_[byte(0) << 8 | byte(1)] = table_.find(left, right);
  if (options_.byte_level) return;
  if (parse_byte_token(vocab_->bytes(left)) || parse_byte_token(vocab_->bytes(right))) cuts_allowed_ = false;
}

void Bpe::start_bytes(std::string_view word, ModelScratch& scratch) const {
  Symbols& symbols = scratch.symbols;
  if (all_bytes_) {
    symbols.tokens.resize(word.size());
    for (size_t i = 0; i < word.size(); i++) symbols.tokens[i] = bytes_[static_cast<unsigned char>(word[i])];
    return;
  }
  symbols.tokens.clear();
  bool pending = false;
  for (const char c : word) {
    const Token token = open(bytes_[static_cast<unsigned char>(c)], scratch);
    if (token != kNoToken) {
      if (pending) symbols.tokens.push_back(options_.unknown);
      pending = false;
      symbols.tokens.push_back(token);
    } else if (options_.unknown != kNoToken) {
      if (pending && !options_.fuse_unknown) symbols.tokens.push_back(options_.unknown);
      pending = true;
    }
  }
  if (pending) symbols.tokens.push_back(options_.unknown);
}

bool Bpe::push_fallback(std::string_view text, ModelScratch& scratch) const {
  if (!options_.byte_fallback) return false;
  for (const char c : text) {
    if (open(bytes_[static_cast<unsigned char>(c)], scratch) == kNoToken) return false;
  }
  for (const char c : text) scratch.symbols.tokens.push_back(bytes_[static_cast<unsigned char>(c)]);
  return true;
}

void Bpe::start_characters(std::string_view word, ModelScratch& scratch) const {
  Symbols& symbols = scratch.symbols;
  symbols.tokens.clear();
  bool pending = false;  // an unknown token not yet written: bytes go before it, known characters behind
  std::string name;
  for (size_t pos = 0; pos < word.size();) {
    std::string_view text = word.substr(pos, char_length(word[pos]));
    const size_t end = pos + text.size();
    if (affixed()) {
      name.assign(pos > 0 ? options_.prefix : "").append(text).append(end == word.size() ? options_.suffix : "");
      text = name;
    }
    const Token token = affixed() ? named(text, scratch) : open(characters_.find(char_at(word, pos)), scratch);
    if (token != kNoToken) {
      if (pending) symbols.tokens.push_back(options_.unknown);
      pending = false;
      symbols.tokens.push_back(token);
    } else if (!push_fallback(text, scratch) && options_.unknown != kNoToken) {
      if (pending && !options_.fuse_unknown) symbols.tokens.push_back(options_.unknown);
      pending = true;
    }
    pos = end;
  }
  if (pending) symbols.tokens.push_back(options_.unknown);
}

// Symbols that no token stands for become bytes or the unknown token, neighbours of which are one.
void Bpe::emit_scored(std::string_view word, const ModelScratch& scratch, std::vector<Token>& out) const {
  const Symbols& symbols = scratch.symbols;
  bool was_unknown = false;
  for (size_t i = 0; i < symbols.size(); i++) {
    bool unknown = false;
    if (symbols.tokens[i] != kNoToken) {
      out.push_back(symbols.tokens[i]);
    } else {
      const size_t before = out.size();
      for (const char c : word.substr(symbols.begins[i], symbols.begins[i + 1] - symbols.begins[i])) {
        const Token byte = open(bytes_[static_cast<unsigned char>(c)], scratch);
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

void Bpe::merge_scored(std::string_view part, ModelScratch& scratch, std::vector<Token>& out) const {
  Symbols& symbols = scratch.symbols;
  symbols.clear();
  for (size_t pos = 0; pos < part.size();) {
    const size_t end = pos + char_length(part[pos]);
    symbols.push(open(characters_.find(char_at(part, pos)), scratch), end);
    pos = end;
  }
  const size_t longest = vocab_->longest();
  merge_spans(symbols, [&](Token, Token, uint32_t begin, uint32_t end) {
    if (end - begin > longest) return kNoMerge;
    const Token token = vocab_->find(part.substr(begin, end - begin));
    return token == kNoToken ? kNoMerge : Merge{score_ranks_[static_cast<size_t>(token)], token};
  });
  emit_scored(part, scratch, out);
}

void Bpe::merge_part(std::string_view part, ModelScratch& scratch, std::vector<Token>& out) const {
  if (options_.by_score) return merge_scored(part, scratch, out);
  Symbols& symbols = scratch.symbols;
  const auto lookup = [&](Token left, Token right, uint32_t, uint32_t) {
    return open(table_.find(left, right), scratch);
  };
  if (options_.byte_level && all_bytes_) {
    start_bytes(part, scratch);
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(part[i])); };
    merge_symbols<false>(symbols, lookup,
                         [&](size_t i) { return open(byte_merges_[byte(i) << 8 | byte(i + 1)], scratch); });
  } else {
    if (options_.byte_level) {
      start_bytes(part, scratch);
    } else {
      start_characters(part, scratch);
    }
    merge_symbols<false>(symbols, lookup,
                         [&](size_t i) { return lookup(symbols.tokens[i], symbols.tokens[i + 1], 0, 0); });
  }
  out.insert(out.end(), symbols.tokens.begin(), symbols.tokens.end());
}

void Bpe::encode_part(std::string_view part, ModelScratch& scratch, std::vector<Token>& out) const {
  if (!scratch.cache || part.size() > WordCache::kMaxWord) return merge_part(part, scratch, out);
  const WordCache::Key key = cache_key(part, kPart, scratch);
  if (scratch.cache->find(key, out)) return;
  const size_t before = out.size();
  merge_part(part, scratch, out);
  scratch.cache->put(key, std::span(out).subspan(before));
}

// An unknown character may fuse with its neighbours.
bool Bpe::may_cut_before(uint32_t cp, const ModelScratch& scratch) const {
  return all_bytes_ || open(characters_.find(cp), scratch) != kNoToken;
}

void Bpe::encode_parts(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const {
  if (!cuts_allowed_ || affixed() || (options_.byte_level && !all_bytes_)) return encode_part(word, scratch, out);
  const unsigned char min_byte = options_.byte_level ? 0x80 : 0;
  // Where unknown characters vanish, those on either side of them are neighbours.
  const bool vanish = !all_bytes_ && !options_.by_score && options_.unknown == kNoToken;
  bool known = !vanish || may_cut_before(char_at(word, 0), scratch);
  PackedChar left = packed_char(word, 0);
  size_t begin = 0;
  for (size_t pos = left.length; pos < word.size();) {
    const PackedChar right = packed_char(word, pos);
    const bool after_known = known;
    if (vanish) known = may_cut_before(char_at(word, pos), scratch);
    if (after_known && static_cast<unsigned char>(word[pos]) >= min_byte && !cuts_.joined(left, right) &&
        may_cut_before(char_at(word, pos), scratch)) {
      encode_part(word.substr(begin, pos - begin), scratch, out);
      begin = pos;
    }
    left = right;
    pos += right.length;
  }
  encode_part(word.substr(begin), scratch, out);
}

void Bpe::encode_whole(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const {
  const Token whole = options_.ignore_merges ? named(word, scratch) : kNoToken;
  if (whole != kNoToken) {
    out.push_back(whole);
  } else if (options_.byte_level && word.size() <= kUncut) {
    merge_part(word, scratch, out);
  } else {
    encode_parts(word, scratch, out);
  }
}

void Bpe::encode(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const {
  const bool repeats =
      options_.byte_level && word.size() <= WordCache::kMaxWord && (word.size() <= kUncut || is_ascii(word));
  if (!repeats || !scratch.cache) return encode_whole(word, scratch, out);
  const WordCache::Key key = cache_key(word, kWholeWord, scratch);
  if (scratch.cache->find(key, out)) return;
  const size_t before = out.size();
  encode_whole(word, scratch, out);
  scratch.cache->put(key, std::span(out).subspan(before));
}

}  // namespace ingot
