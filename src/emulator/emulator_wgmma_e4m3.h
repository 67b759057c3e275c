// Products of warpgroups of 8-bit floats (wgmma_e4m3.cuh) without a GPU.
#pragma once

#include "emulator/emulator_wgmma.h"

namespace ingot::cuda::emulated {

// The same of a_place and b_place, both by rows: 32 bytes of K.
void multiply_group_e4m3(const GroupProduct& product);

}  // namespace ingot::cuda::emulated
