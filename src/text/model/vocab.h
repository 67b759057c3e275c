// The tokens of a vocabulary: bytes, kinds, and a hash table from bytes to id.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ingot {

using Token = int32_t;
inline constexpr Token kNoToken = -1;

// Larger vocabularies are refused: a hostile file must not make us allocate by its word. The largest published have
// about 262,000 tokens.
inline constexpr size_t kMaxTokens = size_t{1} << 24;

enum class TokenKind : uint8_t {
  kNormal,       // in the table of bytes: text becomes it
  kUnknown,      // what stands for text that the vocabulary cannot write
  kControl,      // never in a text unless asked for
  kUserDefined,  // matched as a whole before the model sees the text
  kUnused,       // in the file, given out by nothing
  kByte,         // one byte, as <0x0A>
  kAbsent,       // an id between others that no token has
};

class Vocab {
 public:
  Vocab();
  void reserve(size_t tokens, size_t bytes);

  // The next id. The bytes are those that the model compares: byte-level tokens are mapped back to bytes before.
  Token add(std::string_view bytes, TokenKind kind);

  // Lets find() give `token` for its bytes. False where another token with these bytes is in the table already.
  bool index(Token token);

  size_t size() const { return kinds_.size(); }
  bool contains(Token token) const { return token >= 0 && static_cast<size_t>(token) < kinds_.size(); }
  // REQUIRES below: contains(token).
  std::string_view bytes(Token token) const {
    const auto i = static_cast<size_t>(token);
    return std::string_view(arena_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }
  TokenKind kind(Token token) const { return kinds_[static_cast<size_t>(token)]; }
  void set_kind(Token token, TokenKind kind) { kinds_[static_cast<size_t>(token)] = kind; }

  // Lets the token decode from another text than its bytes. REQUIRES: contains(token).
  void show_as(Token token, std::string text) { shown_[token] = std::move(text); }
  // What the token decodes from: its bytes, mostly. REQUIRES: contains(token).
  std::string_view shown(Token token) const {
    if (shown_.empty()) return bytes(token);
    const auto it = shown_.find(token);
    return it == shown_.end() ? bytes(token) : std::string_view(it->second);
  }

  // The indexed token with these bytes, or kNoToken.
  Token find(std::string_view bytes) const;
  size_t longest() const { return longest_; }  // bytes of the longest indexed token

 private:
  struct Slot {
    uint32_t tag;  // the hash's upper half, compared before the bytes
    Token token;   // kNoToken: free
  };
  void grow();

  std::string arena_;
  std::vector<size_t> ends_;  // token i is arena_[ends_[i], ends_[i + 1])
  std::vector<TokenKind> kinds_;
  std::unordered_map<Token, std::string> shown_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  size_t indexed_ = 0;
  size_t longest_ = 0;
  uint64_t seed_;  // random, so that no file can be made whose tokens all collide
};

// A 64-bit number whose bits all depend on all bits of `a` and `b`.
inline uint64_t mix(uint64_t a, uint64_t b = 0x9E3779B97F4A7C15u) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t load_u64(const char* p) {
  uint64_t value = 0;
  std::memcpy(&value, p, 8);
  return value;
}

// A string of up to 16 bytes as two numbers: strings of one length are equal where these are.
struct ShortString {
  uint64_t first = 0, last = 0;
};
inline ShortString short_string(const char* p, size_t n) {
  if (n >= 8) return {load_u64(p), load_u64(p + n - 8)};
  if (n >= 4) {
    uint32_t first = 0, last = 0;
    std::memcpy(&first, p, 4);
    std::memcpy(&last, p + n - 4, 4);
    return {first, last};
  }
  if (n == 0) return {};
  const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(p[i])); };
  return {byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16, 0};
}

// A fast hash of short byte strings.
inline uint64_t hash_bytes(std::string_view bytes, uint64_t seed) {
  constexpr uint64_t kOther = 0xD6E8FEB86659FD93u;
  const char* p = bytes.data();
  size_t n = bytes.size();
  uint64_t hash = mix(seed ^ n);
  for (; n > 16; p += 16, n -= 16) hash = mix(hash ^ load_u64(p), load_u64(p + 8) ^ kOther);
  const ShortString rest = short_string(p, n);
  return mix(mix(hash ^ rest.first, rest.last ^ kOther));
}
// A number that differs from process to process.
uint64_t random_seed();

// `<0x0A>` as its byte.
std::optional<uint8_t> parse_byte_token(std::string_view text);

}  // namespace ingot
