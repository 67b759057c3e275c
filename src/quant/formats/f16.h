// F16: IEEE half precision.
//
//   bytes  0..1   the value, little-endian
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"

namespace ingot {

struct F16 {
  static constexpr const char* kName = "f16";
  static constexpr int kGgufType = 1;
  static constexpr int64_t kBlock = 1;
  static constexpr int64_t kBytes = 2;

  INGOT_HD static void decode(const uint8_t* in, float* out) { *out = load_f16(in); }
  static void encode(const float* in, uint8_t* out) { store_f16(*in, out); }
};

}  // namespace ingot
