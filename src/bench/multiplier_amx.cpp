// The peak of the multipliers for x86-64 with AMX for int8 and bf16.
#define INGOT_ISA amx
#include "bench/multiplier_loops.h"

namespace ingot::cpu {

extern const Multiplier kAmxMultiplier;
const Multiplier kAmxMultiplier = amx::kMultiplierTable;

}  // namespace ingot::cpu
