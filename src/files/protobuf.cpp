#include "files/protobuf.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace ingot {

bool ProtobufFields::next() {
  if (rest_.empty()) return false;
  const uint64_t tag = varint();
  number_ = static_cast<int>(std::min<uint64_t>(tag >> 3, INT32_MAX));
  wire_ = static_cast<int>(tag & 7);
  switch (wire_) {
    case 0:
      value_ = varint();
      break;
    case 1:
      bytes_ = take(8);
      break;
    case 2:
      bytes_ = take(varint());
      break;
    case 5:
      bytes_ = take(4);
      break;
    default:
      throw Error("[protobuf] {}: field {} has the wire type {}", where_, number_, wire_);
  }
  return true;
}

bool ProtobufFields::is(int number, int wire) const {
  if (number_ != number) return false;
  if (wire_ != wire) throw Error("[protobuf] {}: field {} has the wire type {}, not {}", where_, number, wire_, wire);
  return true;
}

float ProtobufFields::as_float() const {
  uint32_t bits = 0;
  for (size_t i = 4; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(bytes_[i]);
  return std::bit_cast<float>(bits);
}

uint64_t ProtobufFields::varint() {
  uint64_t result = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    result |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return result;
  }
  throw Error("[protobuf] {}: a number of more than ten bytes", where_);
}

std::string_view ProtobufFields::take(uint64_t n) {
  if (n > rest_.size()) throw Error("[protobuf] {}: {} bytes wanted, {} left", where_, n, rest_.size());
  const std::string_view result = rest_.substr(0, n);
  rest_.remove_prefix(n);
  return result;
}

}  // namespace ingot
