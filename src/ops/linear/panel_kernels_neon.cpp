#define INGOT_KERNELS kNeonPanelKernels
#define INGOT_ISA_NAME "neon"
#include "ops/linear/panel_kernels.inc"
