// One layer's place in the device's KV cache (kv_rows.cuh says how a row lies).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "tensor/dtype.h"

namespace ingot::cuda {

// One slot of one head.
struct KvRow {
  std::byte* at;
  std::byte* scales;  // q8_0
  DType dtype;
  int dim;
  int slot;
};

// Kernels take it by value.
struct KvPlace {
  std::byte* k = nullptr;  // of page 0
  std::byte* v = nullptr;
  int64_t k_page = 0, v_page = 0;  // bytes from one page to the next
  int k_bytes = 0, v_bytes = 0;    // of a slot, and of its row: all but the scales (q8_0)
  int k_row_bytes = 0, v_row_bytes = 0;
  int k_dim = 0, v_dim = 0;
  int page_rows = 1;
  DType dtype = DType::kF32;    // of values
  DType k_dtype = DType::kF32;  // of keys: another one where they are rotary parts of a latent cache

  // The first row of a page's head; rows follow one another, behind all of them the scales.
  INGOT_HD std::byte* k_rows(int64_t page, int head) const {
    return k + page * k_page + static_cast<int64_t>(head) * page_rows * k_bytes;
  }
  INGOT_HD std::byte* v_rows(int64_t page, int head) const {
    return v + page * v_page + static_cast<int64_t>(head) * page_rows * v_bytes;
  }
  // Slot = page · page_rows + place.
  INGOT_HD std::byte* k_row(int slot, int head) const {
    return k_rows(slot / page_rows, head) + static_cast<int64_t>(slot % page_rows) * k_row_bytes;
  }
  INGOT_HD std::byte* v_row(int slot, int head) const {
    return v_rows(slot / page_rows, head) + static_cast<int64_t>(slot % page_rows) * v_row_bytes;
  }
  INGOT_HD KvRow key(int slot, int head) const {
    return {k_row(slot, head), scales(k_rows(slot / page_rows, head), k_bytes, k_row_bytes, slot), k_dtype, k_dim,
            slot};
  }
  INGOT_HD KvRow value(int slot, int head) const {
    return {v_row(slot, head), scales(v_rows(slot / page_rows, head), v_bytes, v_row_bytes, slot), dtype, v_dim, slot};
  }

 private:
  INGOT_HD std::byte* scales(std::byte* rows, int bytes, int row_bytes, int slot) const {
    return rows + static_cast<int64_t>(page_rows) * row_bytes +
           static_cast<int64_t>(slot % page_rows) * (bytes - row_bytes);
  }
};

}  // namespace ingot::cuda
