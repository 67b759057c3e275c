#define INGOT_MULTIPLIER kNeonMultiplier
#include "bench/multiplier_loops.h"
