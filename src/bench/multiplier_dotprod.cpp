// The peak of the multipliers for AArch64 with dotprod.
#define INGOT_ISA dotprod
#include "bench/multiplier_loops.h"

namespace ingot::cpu {

extern const Multiplier kDotprodMultiplier;
const Multiplier kDotprodMultiplier = dotprod::kMultiplierTable;

}  // namespace ingot::cpu
