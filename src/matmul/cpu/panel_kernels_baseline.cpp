#define INGOT_KERNELS kBaselinePanelKernels
#define INGOT_ISA_NAME "baseline"
#include "matmul/cpu/panel_table.h"
