#define INGOT_STORED_DOT stored_dot_baseline
#include "ops/linear/ladder/stored_dot.h"
