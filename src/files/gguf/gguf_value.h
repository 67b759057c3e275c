// A value of a GGUF file's metadata: a number, a bool, a string, or an array of one of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "files/gguf/gguf_types.h"

namespace ingot {

// One metadata value. Points into the file: valid as long as its Gguf.
struct GgufValue {
  GgufKind kind = GgufKind::kU8;
  GgufKind element = GgufKind::kU8;       // of an array: what it holds; never kArray
  uint64_t count = 1;                     // of an array: how many
  const std::byte* data = nullptr;        // numbers and bools, little-endian, not aligned
  std::string_view string;                // kString
  std::vector<std::string_view> strings;  // an array of kString

  bool is_array() const { return kind == GgufKind::kArray; }
  std::string type_name() const;                    // "u32", "array of f32"
  std::string text(size_t max_elements = 8) const;  // for people: a number, a quoted string, [1, 2, … 30 in all]
};

// f(v) with value `index` of `value` as the C++ type it has in the file. REQUIRES: numbers or bools, index < count.
template <class F>
decltype(auto) visit_number(const GgufValue& value, uint64_t index, F&& f) {
  const auto load = [&]<class T>(T number) {
    std::memcpy(&number, value.data + index * sizeof(T), sizeof(T));
    return f(number);
  };
  switch (value.element) {
    case GgufKind::kU8:
      return load(uint8_t{});
    case GgufKind::kI8:
      return load(int8_t{});
    case GgufKind::kU16:
      return load(uint16_t{});
    case GgufKind::kI16:
      return load(int16_t{});
    case GgufKind::kU32:
      return load(uint32_t{});
    case GgufKind::kI32:
      return load(int32_t{});
    case GgufKind::kF32:
      return load(float{});
    case GgufKind::kU64:
      return load(uint64_t{});
    case GgufKind::kI64:
      return load(int64_t{});
    case GgufKind::kF64:
      return load(double{});
    default:
      return f(std::to_integer<uint8_t>(value.data[index]) != 0);
  }
}

}  // namespace ingot
