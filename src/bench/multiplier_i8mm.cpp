// The peak of the multipliers for AArch64 with i8mm and bf16.
#define INGOT_ISA i8mm
#include "bench/multiplier_loops.h"

namespace ingot::cpu {

extern const Multiplier kI8mmMultiplier;
const Multiplier kI8mmMultiplier = i8mm::kMultiplierTable;

}  // namespace ingot::cpu
