#define INGOT_MULTIPLIER kAmxMultiplier
#define INGOT_AMX 1
#include "bench/multiplier_loops.h"
