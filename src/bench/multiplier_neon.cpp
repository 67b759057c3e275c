// The peak of the multipliers for AArch64, every one of which has NEON.
#define INGOT_ISA neon
#include "bench/multiplier_loops.h"

namespace ingot::cpu {

extern const Multiplier kNeonMultiplier;
const Multiplier kNeonMultiplier = neon::kMultiplierTable;

}  // namespace ingot::cpu
