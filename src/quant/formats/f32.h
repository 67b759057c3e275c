// F32: plain float32.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/host_device.h"

namespace ingot {

struct F32 {
  static constexpr const char* kName = "f32";
  static constexpr int kGgufType = 0;
  static constexpr int64_t kBlock = 1;
  static constexpr int64_t kBytes = 4;

  // One block: kBytes bytes to kBlock floats, and back.
  INGOT_HD static void decode(const uint8_t* in, float* out) { std::memcpy(out, in, sizeof(float)); }
  static void encode(const float* in, uint8_t* out) { std::memcpy(out, in, sizeof(float)); }
};

}  // namespace ingot
