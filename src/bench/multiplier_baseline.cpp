// The peak of the multipliers for any CPU of the architecture.
#define INGOT_ISA baseline
#include "bench/multiplier_loops.h"

namespace ingot::cpu {

extern const Multiplier kBaselineMultiplier;
const Multiplier kBaselineMultiplier = baseline::kMultiplierTable;

}  // namespace ingot::cpu
