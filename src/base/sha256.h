// SHA-256 (FIPS 180-4) in plain C++.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ingot {

class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  // The digest of all bytes given. The object is spent: neither function may be called after it.
  std::array<uint8_t, 32> finish();

 private:
  void compress(const std::byte* block, size_t count);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_;  // the first pending_bytes_ wait for a whole block
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

std::string hex(std::span<const uint8_t> bytes);           // lower case
std::string sha256_hex(std::span<const std::byte> bytes);  // 64 hex digits, lower case
std::string sha256_file(const std::string& path);          // throws Error when it cannot be read

}  // namespace ingot
