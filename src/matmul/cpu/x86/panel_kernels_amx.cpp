#define INGOT_KERNELS kAmxPanelKernels
#define INGOT_ISA_NAME "amx"
#define INGOT_AMX 1
#include "matmul/cpu/panel_table.h"
