// One layer's place in the device's KV cache (kv_rows.cuh says how a row lies).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "tensor/dtype.h"

namespace ingot::cuda {

// Kernels take it by value.
struct KvPlace {
  std::byte* k = nullptr;  // of page 0
  std::byte* v = nullptr;
  int64_t k_page = 0, v_page = 0;  // bytes from one page to the next
  int k_bytes = 0, v_bytes = 0;    // of a row
  int k_dim = 0, v_dim = 0;
  int page_rows = 1;
  DType dtype = DType::kF32;

  // The first row of a page's head; rows follow one another.
  INGOT_HD std::byte* k_rows(int64_t page, int head) const {
    return k + page * k_page + static_cast<int64_t>(head) * page_rows * k_bytes;
  }
  INGOT_HD std::byte* v_rows(int64_t page, int head) const {
    return v + page * v_page + static_cast<int64_t>(head) * page_rows * v_bytes;
  }
  // Slot = page · page_rows + place.
  INGOT_HD std::byte* k_row(int slot, int head) const {
    return k_rows(slot / page_rows, head) + static_cast<int64_t>(slot % page_rows) * k_bytes;
  }
  INGOT_HD std::byte* v_row(int slot, int head) const {
    return v_rows(slot / page_rows, head) + static_cast<int64_t>(slot % page_rows) * v_bytes;
  }
};

}  // namespace ingot::cuda
