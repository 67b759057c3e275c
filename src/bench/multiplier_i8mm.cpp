#define INGOT_MULTIPLIER kI8mmMultiplier
#include "bench/multiplier_loops.h"
