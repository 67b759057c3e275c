#define INGOT_KERNELS kNeonPanelKernels
#define INGOT_ISA_NAME "neon"
#include "matmul/cpu/panel_table.h"
