#define INGOT_MULTIPLIER kAvx512VnniMultiplier
#include "bench/multiplier_loops.h"
