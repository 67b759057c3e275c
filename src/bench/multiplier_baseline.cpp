#define INGOT_MULTIPLIER kBaselineMultiplier
#include "bench/multiplier.inc"
