#define INGOT_MULTIPLIER kNeonMultiplier
#include "bench/multiplier.inc"
