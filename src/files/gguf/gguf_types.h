// The types of GGUF tensors and of metadata values: numbers, names, sizes.
#pragma once

#include <cstdint>
#include <string_view>

namespace ingot {

// A tensor type: `block` consecutive values take `bytes` bytes. block 0: a number that was given up or never used.
struct GgufTypeInfo {
  uint32_t type;
  const char* name;
  int block;
  int bytes;
};

enum GgufType : uint32_t {
  kGgufF32 = 0,
  kGgufF16 = 1,
  kGgufQ4_0 = 2,
  kGgufQ4_1 = 3,
  kGgufQ5_0 = 6,
  kGgufQ5_1 = 7,
  kGgufQ8_0 = 8,
  kGgufQ8_1 = 9,
  kGgufQ2_K = 10,
  kGgufQ3_K = 11,
  kGgufQ4_K = 12,
  kGgufQ5_K = 13,
  kGgufQ6_K = 14,
  kGgufQ8_K = 15,
  kGgufIQ4_NL = 20,
  kGgufIQ4_XS = 23,
  kGgufI8 = 24,
  kGgufI16 = 25,
  kGgufI32 = 26,
  kGgufI64 = 27,
  kGgufF64 = 28,
  kGgufBF16 = 30,
  kGgufMXFP4 = 39,
};

const GgufTypeInfo* gguf_type_info(uint32_t type);             // nullptr for an unknown number
const GgufTypeInfo* gguf_type_by_name(std::string_view name);  // "Q4_K", any case; nullptr for an unknown name

enum class GgufKind : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

const char* gguf_kind_name(GgufKind kind);  // "u32"; "?" for an unknown number
int gguf_kind_bytes(GgufKind kind);         // of one value; 0 for strings, arrays and unknown numbers

}  // namespace ingot
