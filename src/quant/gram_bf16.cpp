#include "quant/gram_bf16.h"

#include "base/check.h"

#if defined(__ARM_NEON)
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

namespace ingot {

#if defined(__ARM_NEON) && defined(__linux__) && defined(__GNUC__)

#define INGOT_BF16 __attribute__((target("arch=armv8.2-a+bf16")))

bool multiplies_bf16() {
  constexpr unsigned long kHwcap2Bf16 = 1ul << 14;
  static const bool has = (getauxval(AT_HWCAP2) & kHwcap2Bf16) != 0;
  return has;
}

INGOT_BF16 void pack_bf16(const float* x, int64_t rows, int64_t stride, int64_t first, int64_t cols, float* out) {
  const int64_t count = cols - first < 4 ? cols - first : 4;
  auto* pair = reinterpret_cast<uint16_t*>(out + first * bf16_column_floats(rows));
  uint16_t* next_pair = pair + 4 * bf16_column_floats(rows);
  for (int64_t t = 0; t < rows; t += 4, pair += 8, next_pair += 8) {
    float32x4_t row[4];
    for (int64_t r = 0; r < 4; ++r) {
      float last[4] = {};
      const bool whole = count == 4 && t + r < rows;
      for (int64_t c = 0; !whole && c < count && t + r < rows; ++c) last[c] = x[(t + r) * stride + first + c];
      row[r] = vld1q_f32(whole ? x + (t + r) * stride + first : last);
    }
    const float32x4x2_t low = vzipq_f32(row[0], row[2]), high = vzipq_f32(row[1], row[3]);
    const float32x4x2_t one = vzipq_f32(low.val[0], high.val[0]), two = vzipq_f32(low.val[1], high.val[1]);
    vst1_u16(pair, vreinterpret_u16_bf16(vcvt_bf16_f32(one.val[0])));
    vst1_u16(pair + 4, vreinterpret_u16_bf16(vcvt_bf16_f32(one.val[1])));
    vst1_u16(next_pair, vreinterpret_u16_bf16(vcvt_bf16_f32(two.val[0])));
    vst1_u16(next_pair + 4, vreinterpret_u16_bf16(vcvt_bf16_f32(two.val[1])));
  }
}

INGOT_BF16 void tile_bf16(const float* a, const float* b, int64_t rows, float* sum) {
  constexpr int64_t kTall = kBf16Height / 2, kWide = kBf16Width / 2;
  const int64_t step = 4 * bf16_column_floats(rows);
  const auto *x = reinterpret_cast<const uint16_t*>(a), *y = reinterpret_cast<const uint16_t*>(b);
  float32x4_t sums[kTall][kWide] = {};
  for (int64_t t = 0; t < rows; t += 4, x += 8, y += 8) {
    bfloat16x8_t left[kTall];
    for (int64_t i = 0; i < kTall; ++i) left[i] = vreinterpretq_bf16_u16(vld1q_u16(x + i * step));
    for (int64_t j = 0; j < kWide; ++j) {
      const bfloat16x8_t right = vreinterpretq_bf16_u16(vld1q_u16(y + j * step));
      for (int64_t i = 0; i < kTall; ++i) sums[i][j] = vbfmmlaq_f32(sums[i][j], left[i], right);
    }
  }
  for (int64_t i = 0; i < kTall; ++i) {
    for (int64_t j = 0; j < kWide; ++j) {
      float* upper = sum + 2 * i * kBf16Width + 2 * j;
      vst1_f32(upper, vget_low_f32(sums[i][j]));
      vst1_f32(upper + kBf16Width, vget_high_f32(sums[i][j]));
    }
  }
}

#else

bool multiplies_bf16() { return false; }
void pack_bf16(const float*, int64_t, int64_t, int64_t, int64_t, float*) { CHECK(false, "bf16 on this machine"); }
void tile_bf16(const float*, const float*, int64_t, float*) { CHECK(false, "bf16 on this machine"); }

#endif

}  // namespace ingot
