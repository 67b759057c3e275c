#define INGOT_STORED_DOT stored_dot_avx2
#include "ops/linear/ladder/stored_dot.h"
