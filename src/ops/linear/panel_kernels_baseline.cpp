#define INGOT_KERNELS kBaselinePanelKernels
#define INGOT_ISA_NAME "baseline"
#include "ops/linear/panel_kernels.inc"
