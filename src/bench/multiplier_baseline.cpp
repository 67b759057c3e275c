#define INGOT_MULTIPLIER kBaselineMultiplier
#include "bench/multiplier_loops.h"
