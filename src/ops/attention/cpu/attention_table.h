// All attention kernels of the instruction set INGOT_ISA (cpu/isa_source.h), and their table.
#pragma once

#include "ops/attention/cpu/attention_kernels.h"
#include "ops/attention/cpu/attention_mix.h"
#include "ops/attention/cpu/attention_scores.h"
#include "ops/attention/cpu/attention_simd.h"
#include "ops/attention/cpu/attention_softmax.h"

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include "ops/attention/cpu/attention_bf16.h"
#endif

namespace ingot::cpu::INGOT_ISA {
namespace {

constexpr AttentionKernels kAttentionTable = {
    .name = INGOT_ISA_NAME,
    .store_key = store_key,
    .store_value = store_value,
    .open_keys = open_keys,
    .open_values = open_values,
    .direct_queries = 2 * kRows,
    .scores = scores,
    .weigh = weigh,
    .mix = mix,
    .merge = merge,
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    .bf16 = &kBf16Products,
#else
    .bf16 = nullptr,
#endif
};

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
