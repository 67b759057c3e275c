#define INGOT_STORED_DOT stored_dot_neon
#include "ops/linear/ladder/stored_dot.h"
