// Products of 8-bit floats by warpgroups (wgmma_fp8.cuh) without a GPU.
#pragma once

#include "emulator/emulator_wgmma.h"

namespace ingot::cuda::emulated {

// A product of e4m3, 32 values of K, both matrices in shared memory; its sums are as rough as the device's.
void multiply_group_fp8(const GroupProduct& product);

}  // namespace ingot::cuda::emulated
