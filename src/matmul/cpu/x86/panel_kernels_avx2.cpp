#define INGOT_KERNELS kAvx2PanelKernels
#define INGOT_ISA_NAME "avx2"
#include "matmul/cpu/panel_table.h"
