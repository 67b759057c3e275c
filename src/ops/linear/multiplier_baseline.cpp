#define INGOT_MULTIPLIER kBaselineMultiplier
#include "ops/linear/multiplier.inc"
