#include "ops/attention/cpu/attention_kernels.h"

namespace ingot::cpu {

#if defined(__x86_64__)
extern const AttentionKernels kBaselineAttentionKernels, kAvx2AttentionKernels, kAvx512AttentionKernels;
#elif defined(__aarch64__)
extern const AttentionKernels kNeonAttentionKernels, kI8mmAttentionKernels;
#else
extern const AttentionKernels kBaselineAttentionKernels;
#endif

const AttentionKernels& attention_kernels([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kAmx:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512:
      return kAvx512AttentionKernels;
    case Isa::kAvx2:
      return kAvx2AttentionKernels;
    default:
      return kBaselineAttentionKernels;
  }
#elif defined(__aarch64__)
  return isa == Isa::kI8mm ? kI8mmAttentionKernels : kNeonAttentionKernels;
#else
  return kBaselineAttentionKernels;
#endif
}

const AttentionKernels& attention_kernels() { return attention_kernels(isa()); }

bool multiplies_pairs(int64_t k_dim, int64_t v_dim) {
  return attention_kernels().bf16 != nullptr && Bf16Products::fits(k_dim, v_dim);
}

}  // namespace ingot::cpu
