#include "text/split/cuts.h"

#include <algorithm>

#include "text/chars.h"

namespace ingot {

namespace {

uint32_t byte_at(std::string_view text, size_t pos) { return static_cast<unsigned char>(text[pos]); }
bool continues(uint32_t byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

Cuts::Cuts(unsigned char min_byte)
    : min_byte_(min_byte), pairs_((size_t{1} << kBits) / 64), fragments_((size_t{1} << 16) / 64) {}

void Cuts::add(std::string_view token) {
  for (size_t i = 1; i < token.size(); i++) {
    const uint32_t first = byte_at(token, i);
    if (first < min_byte_ || continues(first)) continue;
    size_t begin = i - 1;
    while (begin > 0 && i - begin < 4 && continues(byte_at(token, begin))) begin--;
    const size_t length = char_length(token[i]);
    const size_t end = std::min(i + length, token.size());
    uint32_t left = 0, right = 0;
    for (size_t k = begin; k < i; k++) left = left << 8 | byte_at(token, k);
    for (size_t k = i; k < end; k++) right = right << 8 | byte_at(token, k);
    const size_t bit = place(left, right);
    pairs_[bit / 64] |= uint64_t{1} << (bit % 64);
    if (!continues(byte_at(token, begin)) && end == i + length) continue;
    const size_t ends = (left & 0xFF) << 8 | first;
    fragments_[ends / 64] |= uint64_t{1} << (ends % 64);
  }
}

bool Cuts::fragment_joins(PackedChar left, PackedChar right) const {
  for (uint32_t k = 1; k <= left.length; k++) {
    const uint32_t tail = left.bytes & (k == 4 ? UINT32_MAX : (uint32_t{1} << (8 * k)) - 1);
    for (uint32_t m = 1; m <= right.length; m++) {
      if (test(tail, right.bytes >> (8 * (right.length - m)))) return true;
    }
  }
  return false;
}

}  // namespace ingot
