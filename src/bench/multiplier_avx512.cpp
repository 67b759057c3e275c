#define INGOT_MULTIPLIER kAvx512Multiplier
#include "bench/multiplier.inc"
