// Places of a word that no token of a vocabulary reaches over: what stands at their left and at their right is merged
// apart, with the same result. So a text without spaces is not one word of its full length, and its parts repeat.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ingot {

// The bytes of a character, the first one highest, and how many they are.
struct PackedChar {
  uint32_t bytes = 0;
  uint32_t length = 0;
};

// Knows of each two characters whether they stand side by side inside a token, in one bit that two pairs may share: it
// errs to "inside". Tokens of bytes may begin or end inside a character, and count with what they have of it.
class Cuts {
 public:
  // `min_byte`: pairs whose second character begins below this byte are left out, and must not be asked for.
  explicit Cuts(unsigned char min_byte = 0);

  // To be called with every token.
  void add(std::string_view token);

  // Whether some token may reach from `left` into `right`. REQUIRES: both whole, `right` not below min_byte.
  bool joined(PackedChar left, PackedChar right) const {
    if (test(left.bytes, right.bytes)) return true;
    const size_t ends = (left.bytes & 0xFF) << 8 | right.bytes >> (8 * (right.length - 1));
    return (fragments_[ends / 64] >> (ends % 64) & 1) != 0 && fragment_joins(left, right);
  }

 private:
  static constexpr int kBits = 21;  // of the number of bits: 256 KiB; the largest vocabularies have 150,000 pairs
  static size_t place(uint32_t left, uint32_t right) {
    return static_cast<size_t>(((static_cast<uint64_t>(left) << 32 | right) * 0x9E3779B97F4A7C15u) >> (64 - kBits));
  }
  bool test(uint32_t left, uint32_t right) const {
    const size_t i = place(left, right);
    return (pairs_[i / 64] >> (i % 64) & 1) != 0;
  }
  bool fragment_joins(PackedChar left, PackedChar right) const;

  unsigned char min_byte_;
  std::vector<uint64_t> pairs_;
  std::vector<uint64_t> fragments_;  // by last byte at the left and first at the right: a token has part of a character
};

}  // namespace ingot
