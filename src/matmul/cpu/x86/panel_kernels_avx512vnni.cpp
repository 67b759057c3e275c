#define INGOT_KERNELS kAvx512VnniPanelKernels
#define INGOT_ISA_NAME "avx512vnni"
#include "matmul/cpu/panel_table.h"
