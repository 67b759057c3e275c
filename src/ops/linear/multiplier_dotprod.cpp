#define INGOT_MULTIPLIER kDotprodMultiplier
#include "ops/linear/multiplier.inc"
