#define INGOT_KERNELS kDotprodPanelKernels
#define INGOT_ISA_NAME "dotprod"
#include "matmul/cpu/panel_table.h"
