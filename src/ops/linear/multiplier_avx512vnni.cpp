#define INGOT_MULTIPLIER kAvx512VnniMultiplier
#include "ops/linear/multiplier.inc"
