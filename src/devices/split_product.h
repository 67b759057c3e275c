// One large product over several devices of the CPU, cut by its rows (m), its outputs (n) or its inputs (k), against
// one device alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "devices/device_list.h"
#include "devices/matmul_part.h"

namespace ingot {

enum class SplitBy : uint8_t { kOne, kM, kN, kK, kNOverlapped };

struct SplitTime {
  SplitBy by = SplitBy::kOne;
  double seconds = 0;      // median; everyone has the whole result then
  double product_s = 0;    // of it the longest rank's product; 0 where both go on at once
  bool same_bits = false;  // as one device's
  double nmse = 0;         // to it
};
const char* split_name(SplitBy by);
const char* split_text(SplitBy by);

struct SplitWork {
  MatmulSize size;
  Format format = Format::kBF16;
  int repeat = 5;
};

// Throws Error where a cut leaves a device without a share.
void check_splits(const std::vector<Device>& devices, const SplitWork& work);

// kOne on the first device, then each cut over all. `tell` hears of each and may throw. REQUIRES: devices of the CPU,
// and check_splits().
std::vector<SplitTime> time_splits(const std::vector<Device>& devices, const SplitWork& work,
                                   const std::function<void(const SplitTime&)>& tell);

}  // namespace ingot
