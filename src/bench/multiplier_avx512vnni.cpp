// The peak of the multipliers for x86-64 with AVX-512 VNNI.
#define INGOT_ISA avx512vnni
#include "bench/multiplier_loops.h"

namespace ingot::cpu {

extern const Multiplier kAvx512VnniMultiplier;
const Multiplier kAvx512VnniMultiplier = avx512vnni::kMultiplierTable;

}  // namespace ingot::cpu
