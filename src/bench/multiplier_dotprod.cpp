#define INGOT_MULTIPLIER kDotprodMultiplier
#include "bench/multiplier_loops.h"
