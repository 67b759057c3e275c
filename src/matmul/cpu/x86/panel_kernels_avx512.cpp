#define INGOT_KERNELS kAvx512PanelKernels
#define INGOT_ISA_NAME "avx512"
#include "matmul/cpu/panel_table.h"
