// Products of warpgroups (wgmma.cuh) without a GPU.
#pragma once

#include <cstdint>

namespace ingot::cuda::emulated {

// What wgmma.cuh promises, by all lanes of a warp; `a` or else a_place.
struct GroupProduct {
  float* d;
  int n;
  const uint32_t* a;
  uint64_t a_place, b_place;
  bool bf16, by_columns, add;
};
void multiply_group(const GroupProduct& product);
void products_begin();
void products_commit();
void products_done(int but);
// Bytes from the beginning of dynamic shared memory. REQUIRES: p is inside of it.
uint32_t shared_offset(const void* p);

}  // namespace ingot::cuda::emulated
