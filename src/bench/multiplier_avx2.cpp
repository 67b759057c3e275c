// The peak of the multipliers for x86-64 with AVX2, FMA and F16C.
#define INGOT_ISA avx2
#include "bench/multiplier_loops.h"

namespace ingot::cpu {

extern const Multiplier kAvx2Multiplier;
const Multiplier kAvx2Multiplier = avx2::kMultiplierTable;

}  // namespace ingot::cpu
