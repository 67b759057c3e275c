// Where an op runs and its memory lies.
#pragma once

#include <cstdint>

namespace ingot {

enum class DeviceKind : uint8_t { kCpu };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;

  bool operator==(const Device&) const = default;
};

}  // namespace ingot
