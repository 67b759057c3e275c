#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ingot {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The value of a float format from its definition.
double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> (exponent_bits + mantissa_bits) & 1u) != 0 ? -1 : 1;
  if (exponent == (1u << exponent_bits) - 1) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << mantissa_bits), static_cast<int>(exponent) - bias - mantissa_bits);
}

TEST(F16, All65536Values) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float got = f16_to_f32(static_cast<uint16_t>(bits));
    const double want = value_of(bits, 5, 10);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      const uint16_t back = f32_to_f16(got);
      ASSERT_TRUE(std::isnan(f16_to_f32(back))) << bits;
      ASSERT_EQ(back >> 15, bits >> 15) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), want) << bits;
    ASSERT_EQ(std::signbit(got), (bits & 0x8000u) != 0) << bits;
    ASSERT_EQ(f32_to_f16(got), bits);
  }
}

TEST(Bf16, All65536Values) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float got = bf16_to_f32(static_cast<uint16_t>(bits));
    const double want = value_of(bits, 8, 7);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(got)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), want) << bits;
    ASSERT_EQ(f32_to_bf16(got), bits);
  }
}

// Between every two neighbours: half way goes to the even one, a step less or more to the nearer.
template <class Narrow, class Widen>
void check_rounding(uint32_t first, uint32_t largest, const Narrow& narrow, const Widen& widen) {
  for (uint32_t low = first; low < largest; ++low) {
    const float a = widen(static_cast<uint16_t>(low)), b = widen(static_cast<uint16_t>(low + 1));
    const float middle = static_cast<float>((static_cast<double>(a) + b) / 2);
    const uint32_t even = (low & 1u) != 0 ? low + 1 : low;
    ASSERT_EQ(narrow(middle), even) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, -kInf)), low) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, kInf)), low + 1) << low;
    ASSERT_EQ(narrow(-middle), even | 0x8000u) << low;
  }
}

TEST(F16, RoundsToNearestEven) { check_rounding(0, 0x7bff, f32_to_f16, f16_to_f32); }
TEST(Bf16, RoundsToNearestEven) { check_rounding(0, 0x7f7f, f32_to_bf16, bf16_to_f32); }

TEST(F16, Limits) {
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);  // half way to 65536
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_f16(kInf), 0x7c00);
  EXPECT_EQ(f32_to_f16(0x1p-24f), 1);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);  // half way to 0, which is even
  EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(f32_to_f16(-1e-30f), 0x8000);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Bf16, Limits) {
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);  // rounds up to infinity
  EXPECT_EQ(f32_to_bf16(kInf), 0x7f80);
  EXPECT_EQ(f32_to_bf16(-kInf), 0xff80);
  // A NaN whose payload lies in the lower half alone must not become infinity.
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0xffffffffu)))));
}

TEST(Floats, KnownVectors) {
  EXPECT_EQ(f32_to_f16(1.0f), 0x3c00);
  EXPECT_EQ(f32_to_f16(-2.0f), 0xc000);
  EXPECT_EQ(f32_to_f16(0.1f), 0x2e66);
  EXPECT_EQ(f32_to_f16(3.14159265f), 0x4248);
  EXPECT_EQ(f32_to_f16(1e-5f), 0x00a8);
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(-2.0f), 0xc000);
  EXPECT_EQ(f32_to_bf16(0.1f), 0x3dcd);
  EXPECT_EQ(f32_to_bf16(3.14159265f), 0x4049);
  EXPECT_EQ(f32_to_bf16(1e-5f), 0x3728);
  static_assert(f16_to_f32(0x3c00) == 1.0f && bf16_to_f32(0x3f80) == 1.0f);
}

TEST(DType, BytesAndNames) {
  EXPECT_EQ(dtype_bytes(DType::kF32), 4);
  EXPECT_EQ(dtype_bytes(DType::kI32), 4);
  EXPECT_EQ(dtype_bytes(DType::kF16), 2);
  EXPECT_EQ(dtype_bytes(DType::kBF16), 2);
  EXPECT_EQ(dtype_name(DType::kBF16), "bf16");
  EXPECT_EQ(dtype_name(DType::kI32), "i32");
}

}  // namespace
}  // namespace ingot
