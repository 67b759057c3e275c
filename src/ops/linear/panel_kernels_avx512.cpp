#define INGOT_KERNELS kAvx512PanelKernels
#define INGOT_ISA_NAME "avx512"
#include "ops/linear/panel_kernels.inc"
