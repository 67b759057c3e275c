// The peak of the multipliers for x86-64 with AVX-512 F, BW, VL and DQ.
#define INGOT_ISA avx512
#include "bench/multiplier_loops.h"

namespace ingot::cpu {

extern const Multiplier kAvx512Multiplier;
const Multiplier kAvx512Multiplier = avx512::kMultiplierTable;

}  // namespace ingot::cpu
