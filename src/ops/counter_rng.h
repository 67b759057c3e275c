// The random numbers of sampling: a pure function of what they are for, without state, so that the same
// seed gives the same text whatever the batch, the order of work or the device. Part of what Sample means:
// every version of it draws these numbers.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace ingot {

// What a number is drawn for; each has its own stream.
enum class Draw : uint32_t { kToken = 0, kXtc = 1 };

class CounterRng {
 public:
  INGOT_HD constexpr explicit CounterRng(uint64_t key) : key_(key) {}
  INGOT_HD constexpr CounterRng(uint64_t seed, int32_t choice, int32_t position, Draw draw)
      : key_(CounterRng(
                 CounterRng(CounterRng(seed).bits(static_cast<uint32_t>(choice))).bits(static_cast<uint32_t>(position)))
                 .bits(static_cast<uint32_t>(draw))) {}

  // Number `counter` of SplitMix64 seeded with the key: two multiplications, passes BigCrush.
  INGOT_HD constexpr uint64_t bits(uint32_t counter) const {
    uint64_t z = key_ + (uint64_t{counter} + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // In (0, 1), both ends left out: an odd multiple of 2^-53 from the upper 52 bits.
  INGOT_HD static constexpr double unit(uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52; }
  INGOT_HD constexpr double uniform(uint32_t counter) const { return unit(bits(counter)); }

 private:
  uint64_t key_;
};

}  // namespace ingot
