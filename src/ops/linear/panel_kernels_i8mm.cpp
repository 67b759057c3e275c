#define INGOT_KERNELS kI8mmPanelKernels
#define INGOT_ISA_NAME "i8mm"
#include "ops/linear/panel_kernels.inc"
