// A layer's place in the cache as kernels are given it.
#pragma once

#include "cuda/kv_place.h"
#include "ops/kv_cache.h"

namespace ingot::cuda {

inline KvPlace kv_place(const KvLayer& kv) {
  return {.k = kv.k,
          .v = kv.v,
          .k_page = kv.page_bytes != 0 ? kv.page_bytes : kv.k_bytes() * kv.page_rows * kv.kv_heads,
          .v_page = kv.page_bytes != 0 ? kv.page_bytes : kv.v_bytes() * kv.page_rows * kv.kv_heads,
          .k_bytes = static_cast<int>(kv.k_bytes()),
          .v_bytes = static_cast<int>(kv.v_bytes()),
          .k_row_bytes = static_cast<int>(kv.k_dtype() == DType::kQ8_0 ? kv.k_dim : kv.k_bytes()),
          .v_row_bytes = static_cast<int>(kv.dtype == DType::kQ8_0 ? kv.v_dim : kv.v_bytes()),
          .k_dim = kv.k_dim,
          .v_dim = kv.v_dim,
          .page_rows = kv.page_rows,
          .dtype = kv.dtype,
          .k_dtype = kv.k_dtype()};
}

}  // namespace ingot::cuda
