#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/mmap.h"

namespace ingot {

namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big_endian(const std::byte* p) {
  return static_cast<uint32_t>(p[0]) << 24 | static_cast<uint32_t>(p[1]) << 16 | static_cast<uint32_t>(p[2]) << 8 |
         static_cast<uint32_t>(p[3]);
}

// One round. The caller renames the eight words instead of moving them: d and h are the only ones that change.
inline void round(uint32_t a, uint32_t b, uint32_t c, uint32_t& d, uint32_t e, uint32_t f, uint32_t g, uint32_t& h,
                  uint32_t word) {
  const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
  const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
  const uint32_t t = h + sum1 + (g ^ (e & (f ^ g))) + word;
  d += t;
  h = t + sum0 + ((a & b) | (c & (a | b)));
}

}  // namespace

void Sha256::compress(const std::byte* block, size_t count) {
  auto [a, b, c, d, e, f, g, h] = state_;
  for (; count > 0; count--, block += 64) {
    uint32_t w[64];
    for (size_t i = 0; i < 16; i++) w[i] = load_big_endian(block + 4 * i);
    for (size_t i = 16; i < 64; i++) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    for (size_t i = 0; i < 64; i += 8) {
      round(a, b, c, d, e, f, g, h, w[i] + kRound[i]);
      round(h, a, b, c, d, e, f, g, w[i + 1] + kRound[i + 1]);
      round(g, h, a, b, c, d, e, f, w[i + 2] + kRound[i + 2]);
      round(f, g, h, a, b, c, d, e, w[i + 3] + kRound[i + 3]);
      round(e, f, g, h, a, b, c, d, w[i + 4] + kRound[i + 4]);
      round(d, e, f, g, h, a, b, c, w[i + 5] + kRound[i + 5]);
      round(c, d, e, f, g, h, a, b, w[i + 6] + kRound[i + 6]);
      round(b, c, d, e, f, g, h, a, w[i + 7] + kRound[i + 7]);
    }
    a = state_[0] += a;
    b = state_[1] += b;
    c = state_[2] += c;
    d = state_[3] += d;
    e = state_[4] += e;
    f = state_[5] += f;
    g = state_[6] += g;
    h = state_[7] += h;
  }
}

void Sha256::update(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  if (pending_bytes_ > 0) {
    const size_t n = std::min(bytes.size(), pending_.size() - pending_bytes_);
    std::copy_n(bytes.data(), n, pending_.data() + pending_bytes_);
    pending_bytes_ += n;
    bytes = bytes.subspan(n);
    if (pending_bytes_ < pending_.size()) return;
    compress(pending_.data(), 1);
    pending_bytes_ = 0;
  }
  const size_t whole = bytes.size() / 64;
  compress(bytes.data(), whole);
  bytes = bytes.subspan(whole * 64);
  std::copy_n(bytes.data(), bytes.size(), pending_.data());
  pending_bytes_ = bytes.size();
}

std::array<uint8_t, 32> Sha256::finish() {
  const uint64_t bits = total_bytes_ * 8;
  std::array<std::byte, 72> tail = {std::byte{0x80}};
  // 0x80, zeros up to 8 bytes before the end of a block, then the length in bits.
  const size_t zeros_end = (pending_bytes_ < 56 ? 56 : 120) - pending_bytes_;
  for (size_t i = 0; i < 8; i++) tail[zeros_end + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  update(std::span(tail).first(zeros_end + 8));
  std::array<uint8_t, 32> digest;
  for (size_t i = 0; i < 32; i++) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::string hex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return hex(sha.finish());
}

std::string sha256_file(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  file.advise_sequential(file.bytes());
  return sha256_hex(file.bytes());
}

}  // namespace ingot
