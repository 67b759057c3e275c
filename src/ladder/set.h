// Which of the instruction sets that the CPU steps are compiled for is used.
#pragma once

#include <cstdint>

#if defined(__aarch64__)
#define INGOT_LADDER_HAS_NEON 1
#elif defined(__x86_64__)
#define INGOT_LADDER_HAS_BASELINE 1
#define INGOT_LADDER_HAS_AVX2 1
#define INGOT_LADDER_HAS_AVX512 1
#else
#define INGOT_LADDER_HAS_BASELINE 1
#endif

namespace ingot::ladder {

enum class LadderSet : uint8_t { kBaseline, kNeon, kAvx2, kAvx512 };

// By cpu/isa.h: the best of these that the set in use contains.
LadderSet ladder_set();

}  // namespace ingot::ladder
