#include "text/model/vocab.h"

#include <random>

#include "base/error.h"

namespace ingot {

uint64_t random_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32 | device()) | 1;
  }();
  return seed;
}

std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  const int high = digit(text[3]);
  const int low = digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

Vocab::Vocab() : ends_{0}, seed_(random_seed()) {}

void Vocab::reserve(size_t tokens, size_t bytes) {
  arena_.reserve(bytes);
  ends_.reserve(tokens + 1);
  kinds_.reserve(tokens);
  size_t slots = 16;
  while (slots < tokens * 2) slots *= 2;
  if (slots_.empty()) slots_.assign(slots, {0, kNoToken});
}

Token Vocab::add(std::string_view bytes, TokenKind kind) {
  if (kinds_.size() >= kMaxTokens) throw Error("[tokenizer] more than {} tokens", kMaxTokens);
  arena_.append(bytes);
  ends_.push_back(arena_.size());
  kinds_.push_back(kind);
  return static_cast<Token>(kinds_.size() - 1);
}

bool Vocab::index(Token token) {
  if ((indexed_ + 1) * 2 > slots_.size()) grow();
  const std::string_view text = bytes(token);
  const uint64_t hash = hash_bytes(text, seed_);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t i = hash & (slots_.size() - 1);
  while (slots_[i].token != kNoToken) {
    if (slots_[i].tag == tag && bytes(slots_[i].token) == text) return false;
    i = (i + 1) & (slots_.size() - 1);
  }
  slots_[i] = {tag, token};
  indexed_++;
  longest_ = text.size() > longest_ ? text.size() : longest_;
  return true;
}

void Vocab::grow() {
  std::vector<Slot> old(slots_.empty() ? 16 : slots_.size() * 2, Slot{0, kNoToken});
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.token == kNoToken) continue;
    size_t i = hash_bytes(bytes(slot.token), seed_) & (slots_.size() - 1);
    while (slots_[i].token != kNoToken) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = slot;
  }
}

Token Vocab::find(std::string_view text) const {
  if (slots_.empty() || text.size() > longest_) return kNoToken;
  const uint64_t hash = hash_bytes(text, seed_);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & (slots_.size() - 1); slots_[i].token != kNoToken; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].tag == tag && bytes(slots_[i].token) == text) return slots_[i].token;
  }
  return kNoToken;
}

}  // namespace ingot
