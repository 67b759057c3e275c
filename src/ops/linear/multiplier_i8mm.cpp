#define INGOT_MULTIPLIER kI8mmMultiplier
#include "ops/linear/multiplier.inc"
