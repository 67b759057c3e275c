#define INGOT_MULTIPLIER kAvx2Multiplier
#include "ops/linear/multiplier.inc"
