#define INGOT_MULTIPLIER kNeonMultiplier
#include "ops/linear/multiplier.inc"
