// The KV cache as ops see it. Layers with the same shape and window form a group and share page
// numbers; of a page each layer has its own keys and values, laid out [kv head][slots of the page].
//
// A value's row lies as it is: v_dim elements. Keys lie in groups of 16 slots, dimension by dimension: [k_dim][16].
// So 16 scores are one sum of products over the dimensions in a vector, without a sum across its lanes: those cost as
// much as the products themselves where heads have 64 dimensions.
//
// In pairs (KvLayer::pairs, bf16 alone) both lie as instructions that multiply 2 × 4 by 4 × 2 values read them: keys in
// groups of 16 slots [k_dim / 4][16][4], values in groups of 4 slots [v_dim][4].
//
// fp8 and int8: a byte each, in the same order; what is stored is the value over its head's scale. q8_0: first the int8
// of a row or group in the same order, then its f16 scales, one for each 32 dimensions: [ceil(v_dim / 32)] of a row,
// [ceil(k_dim / 32)][16] of a group. A head's last block may be short.
//
// A latent group (DeepSeek) has one KV head whose key is its value, the latent, followed by a rotary part: `v` holds
// the v_dim values of the latent in the group's type, `k` the k_dim values of the rotary part in 16 bits or more. So a
// query has v_dim + k_dim values, and a slot takes no more memory than one key.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace ingot {

inline constexpr int kKeyGroup = 16;   // slots; a page is a multiple
inline constexpr int kValueGroup = 4;  // slots of values in pairs

namespace cpu {
// Whether this CPU multiplies a cache of bf16 as it lies in pairs (beside attention's kernels, which do it).
bool multiplies_pairs(int64_t k_dim, int64_t v_dim);
}  // namespace cpu

// The type of what `k` holds in a cache of this type.
constexpr DType kv_key_dtype(DType dtype, bool latent) {
  return latent && (dtype == DType::kFp8 || dtype == DType::kQ8_0 || dtype == DType::kInt8) ? DType::kF16 : dtype;
}

struct KvGroupSpec {
  int kv_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
  DType dtype = DType::kF32;
  int window = 0;    // a row sees the last `window` positions, itself included; 0: all
  int n_layers = 0;  // layers of the model in this group
  bool latent = false;

  // Of one slot of one head.
  int64_t k_row_bytes() const { return dtype_row_bytes(kv_key_dtype(dtype, latent), k_dim); }
  int64_t v_row_bytes() const { return dtype_row_bytes(dtype, v_dim); }
  // Equal but for n_layers: such layers share a group.
  bool same_kind(const KvGroupSpec& o) const {
    return kv_heads == o.kv_heads && k_dim == o.k_dim && v_dim == o.v_dim && dtype == o.dtype && window == o.window &&
           latent == o.latent;
  }
};

// One layer's place in the cache. `k` and `v` are set when the cache is bound to a program.
struct KvLayer {
  int group = -1;
  int index = -1;  // among the group's layers
  int kv_heads = 0, k_dim = 0, v_dim = 0;
  int page_rows = 0;  // a multiple of kKeyGroup
  DType dtype = DType::kF32;
  bool latent = false;
  bool pairs = false;      // set with `k`, where this CPU multiplies the cache as it lies
  std::byte* k = nullptr;  // of page 0
  std::byte* v = nullptr;
  int64_t page_bytes = 0;  // from one page to the next, for keys and for values; 0: they lie side by side
  // fp8 and int8: what a head's codes are multiplied by, [kv_heads], the model's; null: 1. A GPU's kernels pass them
  // over.
  const float* k_scales = nullptr;
  const float* v_scales = nullptr;

  DType k_dtype() const { return kv_key_dtype(dtype, latent); }
  // Values of a query of one head.
  int q_dim() const { return latent ? v_dim + k_dim : k_dim; }

  float k_scale(int head) const { return k_scales != nullptr ? k_scales[head] : 1.0f; }
  float v_scale(int head) const { return v_scales != nullptr ? v_scales[head] : 1.0f; }

  // Of one slot of one head.
  int64_t k_bytes() const { return dtype_row_bytes(k_dtype(), k_dim); }
  int64_t v_bytes() const { return dtype_row_bytes(dtype, v_dim); }

  // Where the head's slots of a page begin: groups of keys one after another, rows of values one after another.
  std::byte* k_page(int64_t page, int head) const { return at(k, page, head, k_bytes()); }
  std::byte* v_page(int64_t page, int head) const { return at(v, page, head, v_bytes()); }

  // Slot `slot` is page · page_rows + place. The key is lane slot % kKeyGroup of its group.
  std::byte* k_group(int64_t slot, int head) const {
    return k_page(slot / page_rows, head) + slot % page_rows / kKeyGroup * kKeyGroup * k_bytes();
  }
  // REQUIRES: the values are not in pairs.
  std::byte* v_row(int64_t slot, int head) const {
    return v_page(slot / page_rows, head) + slot % page_rows * v_bytes();
  }
  // Of values in pairs; the value is lane slot % kValueGroup.
  std::byte* v_group(int64_t slot, int head) const {
    return v_page(slot / page_rows, head) + slot % page_rows / kValueGroup * kValueGroup * v_bytes();
  }

 private:
  std::byte* at(std::byte* base, int64_t page, int head, int64_t bytes) const {
    const int64_t of_head = bytes * page_rows;
    return base + page * (page_bytes != 0 ? page_bytes : of_head * kv_heads) + head * of_head;
  }
};

}  // namespace ingot
