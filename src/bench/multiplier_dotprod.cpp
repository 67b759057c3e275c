#define INGOT_MULTIPLIER kDotprodMultiplier
#include "bench/multiplier.inc"
