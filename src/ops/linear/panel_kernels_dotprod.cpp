#define INGOT_KERNELS kDotprodPanelKernels
#define INGOT_ISA_NAME "dotprod"
#include "ops/linear/panel_kernels.inc"
