#define INGOT_MULTIPLIER kAvx2Multiplier
#include "bench/multiplier_loops.h"
