#define INGOT_MULTIPLIER kAmxMultiplier
#define INGOT_AMX 1
#include "ops/linear/multiplier.inc"
