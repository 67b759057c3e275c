#define INGOT_MULTIPLIER kAvx512Multiplier
#include "ops/linear/multiplier.inc"
