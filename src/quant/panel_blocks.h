// The integers of the published formats: 32 values of a row at a time, as panels.h wants them. One struct for each
// format that has panels:
//   kKind, kZero        its panel
//   kBytes, kValues     its block
//   unpack(in, sub, q)  the integers of the 32 values `sub` of the block
//   scale(in), min(in)  kF16: the bytes of its f16 fields;  kF32, scale(in, g): the value of group g
//   group_scale(in, g), group_min(in, g), d(in), dmin(in)   kSuper: of group g of the block
// Formats of whole rows instead of these: row_head(in, k), where the scale of value k begins, and row_q(in, k), where
// the 32 integers from value k on lie.
#pragma once

#include <cstdint>

#include "quant/format.h"
#include "quant/k_scales.h"
#include "quant/panels.h"

namespace ingot::panel_block {

// 16 bytes of nibbles: value i in the low, value i + 16 in the high ones.
inline void split_nibbles(const uint8_t* in, uint8_t* q) {
  for (int i = 0; i < 16; ++i) q[i] = in[i] & 15;
  for (int i = 0; i < 16; ++i) q[i + 16] = in[i] >> 4;
}

struct OfQ4_0 : Q4_0 {
  static constexpr PanelKind kKind = PanelKind::kQ4;
  static constexpr int kZero = 8;
  static void unpack(const uint8_t* in, int, uint8_t* q) { split_nibbles(in + 2, q); }
  static const uint8_t* scale(const uint8_t* in) { return in; }
};

struct OfQ4_1 : Q4_1 {
  static constexpr PanelKind kKind = PanelKind::kQ4Min;
  static constexpr int kZero = 0;
  static void unpack(const uint8_t* in, int, uint8_t* q) { split_nibbles(in + 4, q); }
  static const uint8_t* scale(const uint8_t* in) { return in; }
  static const uint8_t* min(const uint8_t* in) { return in + 2; }
};

struct OfQ5_0 : Q5_0 {
  static constexpr PanelKind kKind = PanelKind::kQ5;
  static constexpr int kZero = 16;
  static void unpack(const uint8_t* in, int, uint8_t* q) {
    uint8_t high[32];
    spread_bits(in + 2, high);
    split_nibbles(in + 6, q);
    for (int i = 0; i < 32; ++i) q[i] |= high[i];
  }
  static const uint8_t* scale(const uint8_t* in) { return in; }
};

struct OfQ5_1 : Q5_1 {
  static constexpr PanelKind kKind = PanelKind::kQ5Min;
  static constexpr int kZero = 0;
  static void unpack(const uint8_t* in, int, uint8_t* q) {
    uint8_t high[32];
    spread_bits(in + 4, high);
    split_nibbles(in + 8, q);
    for (int i = 0; i < 32; ++i) q[i] |= high[i];
  }
  static const uint8_t* scale(const uint8_t* in) { return in; }
  static const uint8_t* min(const uint8_t* in) { return in + 2; }
};

struct OfQ8_0 : Q8_0 {
  static constexpr PanelKind kKind = PanelKind::kQ8;
  static constexpr int kZero = 128;
  static void unpack(const uint8_t* in, int, uint8_t* q) {
    for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(in[2 + i] ^ 0x80);
  }
  static const uint8_t* scale(const uint8_t* in) { return in; }
};

// The table of IQ4_NL, from 128 up.
inline void look_up(const uint8_t* in, uint8_t* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = static_cast<uint8_t>(IQ4_NL::kTable[in[i] & 15] + 128);
    q[i + 16] = static_cast<uint8_t>(IQ4_NL::kTable[in[i] >> 4] + 128);
  }
}

struct OfIQ4_NL : IQ4_NL {
  static constexpr PanelKind kKind = PanelKind::kQ8;
  static constexpr int kZero = 128;
  static void unpack(const uint8_t* in, int, uint8_t* q) { look_up(in + 2, q); }
  static const uint8_t* scale(const uint8_t* in) { return in; }
};

struct OfIQ4_XS : IQ4_XS {
  static constexpr PanelKind kKind = PanelKind::kQ8Super;
  static constexpr int kZero = 128;
  static void unpack(const uint8_t* in, int sub, uint8_t* q) { look_up(in + 8 + 16 * sub, q); }
  static const uint8_t* d(const uint8_t* in) { return in; }
  static int group_scale(const uint8_t* in, int g) {
    const int low = (in[4 + g / 2] >> (4 * (g % 2))) & 15;
    return (low | (((load_u16(in + 2) >> (2 * g)) & 3) << 4)) - 32;
  }
};

// The values of e2m1 are halves: twice as large integers, half the scale.
#if defined(__aarch64__)
struct OfMXFP4 : MXFP4 {
  static constexpr PanelKind kKind = PanelKind::kQ4Table;
  static constexpr int kZero = 0;
  static void unpack(const uint8_t* in, int, uint8_t* q) {
    for (int i = 0; i < 16; ++i) {
      q[i] = in[1 + i] & 15;
      q[i + 16] = in[1 + i] >> 4;
    }
  }
  static float scale(const uint8_t* in, int = 0) { return half_power(in[0]); }
};
#else
struct OfMXFP4 : MXFP4 {
  static constexpr PanelKind kKind = PanelKind::kQ8F32;
  static constexpr int kZero = 12;
  static void unpack(const uint8_t* in, int, uint8_t* q) {
    static constexpr uint8_t kDoubled[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    for (int i = 0; i < 16; ++i) {
      q[i] = kDoubled[in[1 + i] & 15];
      q[i + 16] = kDoubled[in[1 + i] >> 4];
    }
  }
  static float scale(const uint8_t* in, int = 0) { return half_power(in[0]); }
};
#endif

struct OfNVFP4 : NVFP4 {
  static constexpr PanelKind kKind = PanelKind::kQ4Table16;
  static constexpr int kZero = kPanelTableZero;
  static void unpack(const uint8_t* in, int sub, uint8_t* q) {
    for (int half = 0; half < 2; ++half) {
      const uint8_t* from = in + kGroups + 16 * sub + 8 * half;
      for (int i = 0; i < 8; ++i) {
        q[16 * half + i] = from[i] & 15;
        q[16 * half + 8 + i] = from[i] >> 4;
      }
    }
  }
  static float scale(const uint8_t* in, int g) { return half_scale(in[g]); }
};

struct OfQ4_K : Q4_K {
  static constexpr PanelKind kKind = PanelKind::kQ4SuperMin;
  static constexpr int kZero = 0;
  static void unpack(const uint8_t* in, int sub, uint8_t* q) {
    const int shift = 4 * (sub % 2);
    for (int i = 0; i < 32; ++i) q[i] = (in[16 + 32 * (sub / 2) + i] >> shift) & 15;
  }
  static const uint8_t* d(const uint8_t* in) { return in; }
  static const uint8_t* dmin(const uint8_t* in) { return in + 2; }
  static int group_scale(const uint8_t* in, int g) { return fields(in).scale[g]; }
  static int group_min(const uint8_t* in, int g) { return fields(in).min[g]; }
  struct Fields {
    uint8_t scale[8], min[8];
  };
  static Fields fields(const uint8_t* in) {
    Fields f;
    unpack_k_scales(in + 4, f.scale, f.min);
    return f;
  }
};

struct OfQ5_K : Q5_K {
  static constexpr PanelKind kKind = PanelKind::kQ5SuperMin;
  static constexpr int kZero = 0;
  static void unpack(const uint8_t* in, int sub, uint8_t* q) {
    const int shift = 4 * (sub % 2);
    const uint8_t* low = in + 48 + 32 * (sub / 2);
    for (int i = 0; i < 32; ++i)
      q[i] = static_cast<uint8_t>(((low[i] >> shift) & 15) | (((in[16 + i] >> sub) & 1) << 4));
  }
  static const uint8_t* d(const uint8_t* in) { return in; }
  static const uint8_t* dmin(const uint8_t* in) { return in + 2; }
  static int group_scale(const uint8_t* in, int g) { return OfQ4_K::group_scale(in, g); }  // the same 16 bytes
  static int group_min(const uint8_t* in, int g) { return OfQ4_K::group_min(in, g); }
};

struct OfQ2_K : Q2_K {
  static constexpr PanelKind kKind = PanelKind::kQ4Super16Min;
  static constexpr int kZero = 0;
  static void unpack(const uint8_t* in, int sub, uint8_t* q) {
    const uint8_t* from = in + 16 + 32 * (sub / 4);
    for (int i = 0; i < 32; ++i) q[i] = (from[i] >> (2 * (sub % 4))) & 3;
  }
  static const uint8_t* d(const uint8_t* in) { return in + 80; }
  static const uint8_t* dmin(const uint8_t* in) { return in + 82; }
  static int group_scale(const uint8_t* in, int g) { return in[g] & 15; }
  static int group_min(const uint8_t* in, int g) { return in[g] >> 4; }
};

struct OfQ3_K : Q3_K {
  static constexpr PanelKind kKind = PanelKind::kQ4Super16;
  static constexpr int kZero = 4;
  static void unpack(const uint8_t* in, int sub, uint8_t* q) {
    const uint8_t* low = in + 32 + 32 * (sub / 4);
    for (int i = 0; i < 32; ++i)
      q[i] = static_cast<uint8_t>(((low[i] >> (2 * (sub % 4))) & 3) | (((in[i] >> sub) & 1) << 2));
  }
  static const uint8_t* d(const uint8_t* in) { return in + 108; }
  static int group_scale(const uint8_t* in, int g) {
    const int low = (in[96 + g % 8] >> (4 * (g / 8))) & 15;
    const int high = (in[104 + g % 4] >> (2 * (g / 4))) & 3;
    return (low | (high << 4)) - 32;
  }
};

struct OfQ6_K : Q6_K {
  static constexpr PanelKind kKind = PanelKind::kQ6Super16;
  static constexpr int kZero = 32;
  static void unpack(const uint8_t* in, int sub, uint8_t* q) {
    const int s = sub % 4;
    const uint8_t* low = in + 64 * (sub / 4) + 32 * (s % 2);
    const uint8_t* high = in + 128 + 32 * (sub / 4);
    const int shift = 4 * (s / 2);
    for (int i = 0; i < 32; ++i)
      q[i] = static_cast<uint8_t>(((low[i] >> shift) & 15) | (((high[i] >> (2 * s)) & 3) << 4));
  }
  static const uint8_t* d(const uint8_t* in) { return in + 208; }
  static int group_scale(const uint8_t* in, int g) { return static_cast<int8_t>(in[192 + g]); }
};

template <class F>
struct OfGroups : F {
  static const uint8_t* row_head(const uint8_t* in, int64_t k) {
    return in + k / F::kGroup * (F::kHead + F::kGroup / F::kBlock * F::kBytes);
  }
  static const uint8_t* row_q(const uint8_t* in, int64_t k) {
    return row_head(in, k) + F::kHead + k % F::kGroup / F::kBlock * F::kBytes;
  }
  static void unpack(const uint8_t* in, int, uint8_t* q) { split_nibbles(in, q); }
};

struct OfINT4 : OfGroups<INT4> {
  static constexpr PanelKind kKind = PanelKind::kInt4;
  static constexpr int kZero = 8;
};

struct OfINT4_ASYM : OfGroups<INT4_ASYM> {
  static constexpr PanelKind kKind = PanelKind::kInt4Zero;
  static constexpr int kZero = 0;
};

struct OfINT8 : INT8 {
  static constexpr PanelKind kKind = PanelKind::kInt8;
  static constexpr int kZero = 128;
  static const uint8_t* row_head(const uint8_t* in, int64_t) { return in; }
  static const uint8_t* row_q(const uint8_t* in, int64_t k) { return in + kHead + k; }
  static void unpack(const uint8_t* in, int, uint8_t* q) {
    for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(in[i] ^ 0x80);
  }
};

// Calls f(OfQ4_0{}) and so on; `otherwise()` for a format without quantized panels.
template <class F, class G>
decltype(auto) visit(Format format, F&& f, G&& otherwise) {
  switch (format) {
#define INGOT_CASE(NAME) \
  case Format::k##NAME:  \
    return f(Of##NAME{});
    INGOT_CASE(Q4_0)
    INGOT_CASE(Q4_1)
    INGOT_CASE(Q5_0)
    INGOT_CASE(Q5_1)
    INGOT_CASE(Q8_0)
    INGOT_CASE(Q2_K)
    INGOT_CASE(Q3_K)
    INGOT_CASE(Q4_K)
    INGOT_CASE(Q5_K)
    INGOT_CASE(Q6_K)
    INGOT_CASE(IQ4_NL)
    INGOT_CASE(IQ4_XS)
    INGOT_CASE(MXFP4)
    INGOT_CASE(NVFP4)
    INGOT_CASE(INT4)
    INGOT_CASE(INT4_ASYM)
    INGOT_CASE(INT8)
#undef INGOT_CASE
    default:
      return otherwise();
  }
}

}  // namespace ingot::panel_block
