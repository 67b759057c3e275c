#define INGOT_MULTIPLIER kAvx512Multiplier
#include "bench/multiplier_loops.h"
