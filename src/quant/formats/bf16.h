// BF16: the upper half of a float32.
//
//   bytes  0..1   the value, little-endian
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"

namespace ingot {

struct BF16 {
  static constexpr const char* kName = "bf16";
  static constexpr int kGgufType = 30;
  static constexpr int64_t kBlock = 1;
  static constexpr int64_t kBytes = 2;

  INGOT_HD static void decode(const uint8_t* in, float* out) { *out = bf16_to_f32(load_u16(in)); }
  static void encode(const float* in, uint8_t* out) { store_u16(f32_to_bf16(*in), out); }
};

}  // namespace ingot
