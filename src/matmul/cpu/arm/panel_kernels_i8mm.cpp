#define INGOT_KERNELS kI8mmPanelKernels
#define INGOT_ISA_NAME "i8mm"
#define INGOT_I8MM 1
#include "matmul/cpu/panel_table.h"
