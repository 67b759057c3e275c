#define INGOT_STORED_DOT stored_dot_avx512
#include "ops/linear/ladder/stored_dot.h"
