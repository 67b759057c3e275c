// Element types of activations and of the KV cache. Weights have formats (quant/format.h) instead.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace ingot {

// kFp8, kQ8_0 and kInt8 are of rows of the KV cache alone. kFp8: e4m3 (quant/formats/f8_e4m3.h): what is finite stays
// finite, at most 448. kInt8: whole numbers, -127 … 127; NaN becomes 0. Of both a head may have a scale, which its
// layer knows (ops/kv_cache.h). kQ8_0: int8, and an f16 scale for each 32 values of the row (the last block may be
// shorter), at most kQ8MostScale, so that every value is finite in f16; it has no size of an element, see
// dtype_row_bytes().
enum class DType : uint8_t { kF32, kF16, kBF16, kI32, kFp8, kQ8_0, kInt8 };

constexpr int kQ8Block = 32;
constexpr float kQ8MostScale = 515.5f;  // 127 times it is 65468.5, the largest of f16 is 65504

constexpr int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kFp8:
    case DType::kInt8:
      return 1;
    case DType::kQ8_0:
      break;
  }
  return 0;
}

// Bytes of a row of n values.
constexpr int64_t dtype_row_bytes(DType dtype, int64_t n) {
  return dtype == DType::kQ8_0 ? n + 2 * ((n + kQ8Block - 1) / kQ8Block) : n * dtype_bytes(dtype);
}

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kI32:
      return "i32";
    case DType::kFp8:
      return "fp8";
    case DType::kQ8_0:
      return "q8_0";
    case DType::kInt8:
      return "int8";
  }
  return "?";
}

// bfloat16: the upper half of a float32. Rounds to nearest even; NaN stays NaN.
constexpr float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
constexpr uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 64u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// IEEE half precision; exact to float32, round to nearest even from it, overflow to infinity.
constexpr float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa × 2^-24, exact in float32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}
constexpr uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {  // below the smallest normal half: let float addition round at 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace ingot
