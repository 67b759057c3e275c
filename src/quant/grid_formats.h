// Where the codes of each format lie, and what they stand for: what rounding onto scales that are fixed already asks of
// a format, beside decode and encode. Of each format (grid.h is what others include):
//   kSub                  so many values in a row share a scale and a base
//   kLevels               what a code stands for: the integers lo…hi, code 0 being lo, or the entries of a codebook
//   scales(block, …)      scale and base of each kSub values: value = scale · level + base, as decode() computes it
//   set_codes(code, …)    writes the codes of a block and leaves its scales alone; formats of whole rows: of a row
#pragma once

#include <cstdint>
#include <cstring>

#include "quant/format.h"

namespace ingot {

// Formats of single values have none: each value is its own code.
template <class F>
struct GridOf {
  static constexpr int64_t kSub = 0;
};

template <>
struct GridOf<Q4_0> : Q4_0 {
  static constexpr int64_t kSub = 32;
  static constexpr IntGrid kLevels{-8, 7};
  static void scales(const uint8_t* in, float* scale, float* base) { *scale = load_f16(in), *base = 0; }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int i = 0; i < 16; ++i) out[2 + i] = static_cast<uint8_t>(code[i] | (code[i + 16] << 4));
  }
};

template <>
struct GridOf<Q4_1> : Q4_1 {
  static constexpr int64_t kSub = 32;
  static constexpr IntGrid kLevels{0, 15};
  static void scales(const uint8_t* in, float* scale, float* base) { *scale = load_f16(in), *base = load_f16(in + 2); }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int i = 0; i < 16; ++i) out[4 + i] = static_cast<uint8_t>(code[i] | (code[i + 16] << 4));
  }
};

template <>
struct GridOf<Q5_0> : Q5_0 {
  static constexpr int64_t kSub = 32;
  static constexpr IntGrid kLevels{-16, 15};
  static void scales(const uint8_t* in, float* scale, float* base) { *scale = load_f16(in), *base = 0; }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    uint32_t high = 0;
    for (int i = 0; i < 32; ++i) high |= static_cast<uint32_t>(code[i] >> 4) << i;
    store_u32(high, out + 2);
    for (int i = 0; i < 16; ++i) out[6 + i] = static_cast<uint8_t>((code[i] & 15) | ((code[i + 16] & 15) << 4));
  }
};

template <>
struct GridOf<Q5_1> : Q5_1 {
  static constexpr int64_t kSub = 32;
  static constexpr IntGrid kLevels{0, 31};
  static void scales(const uint8_t* in, float* scale, float* base) { *scale = load_f16(in), *base = load_f16(in + 2); }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    uint32_t high = 0;
    for (int i = 0; i < 32; ++i) high |= static_cast<uint32_t>(code[i] >> 4) << i;
    store_u32(high, out + 4);
    for (int i = 0; i < 16; ++i) out[8 + i] = static_cast<uint8_t>((code[i] & 15) | ((code[i + 16] & 15) << 4));
  }
};

template <>
struct GridOf<Q8_0> : Q8_0 {
  static constexpr int64_t kSub = 32;
  static constexpr IntGrid kLevels{-128, 127};
  static void scales(const uint8_t* in, float* scale, float* base) { *scale = load_f16(in), *base = 0; }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int i = 0; i < 32; ++i) out[2 + i] = static_cast<uint8_t>(code[i] - 128);
  }
};

template <>
struct GridOf<IQ4_NL> : IQ4_NL {
  static constexpr int64_t kSub = 32;
  static constexpr const Codebook& kLevels = kCodebook;
  static void scales(const uint8_t* in, float* scale, float* base) { *scale = load_f16(in), *base = 0; }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int i = 0; i < 16; ++i) out[2 + i] = static_cast<uint8_t>(code[i] | (code[i + 16] << 4));
  }
};

// The levels as they ascend; there are fifteen, and the last stands twice.
template <>
struct GridOf<MXFP4> : MXFP4 {
  static constexpr int64_t kSub = 32;
  static constexpr Codebook kLevels{{-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12, 12}};
  static constexpr uint8_t kStored[16] = {15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7, 7};
  static void scales(const uint8_t* in, float* scale, float* base) { *scale = half_power(in[0]), *base = 0; }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int i = 0; i < 16; ++i) out[1 + i] = static_cast<uint8_t>(kStored[code[i]] | (kStored[code[i + 16]] << 4));
  }
};

template <>
struct GridOf<NVFP4> : NVFP4 {
  static constexpr int64_t kSub = kGroup;
  static constexpr const Codebook& kLevels = GridOf<MXFP4>::kLevels;
  static void scales(const uint8_t* in, float* scale, float* base) {
    for (int g = 0; g < kGroups; ++g) scale[g] = half_scale(in[g]), base[g] = 0;
  }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int i = 0; i < 32; ++i) {
      const uint8_t* pair = code + 16 * (i / 8) + i % 8;
      out[kGroups + i] = static_cast<uint8_t>(GridOf<MXFP4>::kStored[pair[0]] | (GridOf<MXFP4>::kStored[pair[8]] << 4));
    }
  }
};

template <>
struct GridOf<Q4_K> : Q4_K {
  static constexpr int64_t kSub = 32;
  static constexpr IntGrid kLevels{0, 15};
  static void scales(const uint8_t* in, float* scale, float* base) {
    uint8_t stored[8], min[8];
    unpack_k_scales(in + 4, stored, min);
    for (int j = 0; j < 8; ++j) {
      scale[j] = load_f16(in) * static_cast<float>(stored[j]);
      base[j] = -(load_f16(in + 2) * static_cast<float>(min[j]));
    }
  }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int p = 0; p < 4; ++p, code += 64) {
      for (int i = 0; i < 32; ++i) out[16 + 32 * p + i] = static_cast<uint8_t>(code[i] | (code[i + 32] << 4));
    }
  }
};

template <>
struct GridOf<Q5_K> : Q5_K {
  static constexpr int64_t kSub = 32;
  static constexpr IntGrid kLevels{0, 31};
  static void scales(const uint8_t* in, float* scale, float* base) {
    uint8_t stored[8], min[8];
    unpack_k_scales(in + 4, stored, min);
    for (int j = 0; j < 8; ++j) {
      scale[j] = load_f16(in) * static_cast<float>(stored[j]);
      base[j] = -(load_f16(in + 2) * static_cast<float>(min[j]));
    }
  }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int i = 0; i < 32; ++i) {
      int high = 0;
      for (int j = 0; j < 8; ++j) high |= (code[32 * j + i] >> 4) << j;
      out[16 + i] = static_cast<uint8_t>(high);
    }
    for (int p = 0; p < 4; ++p, code += 64) {
      for (int i = 0; i < 32; ++i) {
        out[48 + 32 * p + i] = static_cast<uint8_t>((code[i] & 15) | ((code[i + 32] & 15) << 4));
      }
    }
  }
};

template <>
struct GridOf<Q2_K> : Q2_K {
  static constexpr int64_t kSub = 16;
  static constexpr IntGrid kLevels{0, 3};
  static void scales(const uint8_t* in, float* scale, float* base) {
    for (int j = 0; j < 16; ++j) {
      scale[j] = load_f16(in + 80) * static_cast<float>(in[j] & 15);
      base[j] = -(load_f16(in + 82) * static_cast<float>(in[j] >> 4));
    }
  }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int half = 0; half < 2; ++half, code += 128) {
      for (int i = 0; i < 32; ++i) {
        out[16 + 32 * half + i] =
            static_cast<uint8_t>(code[i] | (code[i + 32] << 2) | (code[i + 64] << 4) | (code[i + 96] << 6));
      }
    }
  }
};

template <>
struct GridOf<Q3_K> : Q3_K {
  static constexpr int64_t kSub = 16;
  static constexpr IntGrid kLevels{-4, 3};
  static void scales(const uint8_t* in, float* scale, float* base) {
    for (int j = 0; j < 16; ++j) {
      const int low = (in[96 + j % 8] >> (4 * (j / 8))) & 15, high = (in[104 + j % 4] >> (2 * (j / 4))) & 3;
      scale[j] = load_f16(in + 108) * static_cast<float>((low | (high << 4)) - 32);
      base[j] = 0;
    }
  }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    std::memset(out, 0, 96);
    for (int g = 0; g < 8; ++g) {
      for (int i = 0; i < 32; ++i) {
        const int q = code[32 * g + i];
        uint8_t& low = out[32 + 32 * (g / 4) + i];
        out[i] = static_cast<uint8_t>(out[i] | ((q >> 2) << g));
        low = static_cast<uint8_t>(low | ((q & 3) << (2 * (g % 4))));
      }
    }
  }
};

template <>
struct GridOf<Q6_K> : Q6_K {
  static constexpr int64_t kSub = 16;
  static constexpr IntGrid kLevels{-32, 31};
  static void scales(const uint8_t* in, float* scale, float* base) {
    for (int j = 0; j < 16; ++j) {
      scale[j] = load_f16(in + 208) * static_cast<float>(static_cast<int8_t>(in[192 + j]));
      base[j] = 0;
    }
  }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int half = 0; half < 2; ++half, code += 128) {
      for (int i = 0; i < 64; ++i) {
        out[64 * half + i] = static_cast<uint8_t>((code[i] & 15) | ((code[i + 64] & 15) << 4));
      }
      for (int i = 0; i < 32; ++i) {
        out[128 + 32 * half + i] = static_cast<uint8_t>((code[i] >> 4) | ((code[i + 32] >> 4) << 2) |
                                                        ((code[i + 64] >> 4) << 4) | ((code[i + 96] >> 4) << 6));
      }
    }
  }
};

template <>
struct GridOf<IQ4_XS> : IQ4_XS {
  static constexpr int64_t kSub = 32;
  static constexpr const Codebook& kLevels = IQ4_NL::kCodebook;
  static void scales(const uint8_t* in, float* scale, float* base) {
    for (int j = 0; j < 8; ++j) {
      const int low = (in[4 + j / 2] >> (4 * (j % 2))) & 15, high = (load_u16(in + 2) >> (2 * j)) & 3;
      scale[j] = load_f16(in) * static_cast<float>((low | (high << 4)) - 32);
      base[j] = 0;
    }
  }
  static void set_codes(const uint8_t* code, uint8_t* out) {
    for (int j = 0; j < 8; ++j, code += 32) {
      for (int i = 0; i < 16; ++i) out[8 + 16 * j + i] = static_cast<uint8_t>(code[i] | (code[i + 16] << 4));
    }
  }
};

// Groups with a head before their blocks: a scale, and with kZero the zero point behind it.
template <class F, bool kZero>
struct GroupGrid : F {
  static constexpr int64_t kSub = 32;
  static constexpr IntGrid kLevels = kZero ? IntGrid{0, 15} : IntGrid{-8, 7};
  static void row_scales(const uint8_t* in, int64_t n, float* scale, float* base) {
    for (int64_t k = 0; k < n; k += F::kBlock) {
      const uint8_t* head = in + k / F::kGroup * (F::kHead + F::kGroup / F::kBlock * F::kBytes);
      *scale++ = load_f16(head);
      *base++ = kZero ? -(load_f16(head) * static_cast<float>(head[2])) : 0.0f;
    }
  }
  static void set_row_codes(const uint8_t* code, int64_t n, uint8_t* out) {
    for (int64_t k = 0; k < n; k += F::kBlock, out += F::kBytes, code += F::kBlock) {
      if (k % F::kGroup == 0) out += F::kHead;
      for (int i = 0; i < 16; ++i) out[i] = static_cast<uint8_t>(code[i] | (code[i + 16] << 4));
    }
  }
};
template <>
struct GridOf<INT4> : GroupGrid<INT4, false> {};
template <>
struct GridOf<INT4_ASYM> : GroupGrid<INT4_ASYM, true> {};

template <>
struct GridOf<INT8> : INT8 {
  static constexpr int64_t kSub = 32;
  static constexpr IntGrid kLevels{-127, 127};
  static void row_scales(const uint8_t* in, int64_t n, float* scales, float* base) {
    for (int64_t k = 0; k < n; k += kSub) *scales++ = scale(in), *base++ = 0;
  }
  static void set_row_codes(const uint8_t* code, int64_t n, uint8_t* out) {
    for (int64_t i = 0; i < n; ++i) out[kHead + i] = static_cast<uint8_t>(code[i] - 127);
  }
};

}  // namespace ingot
