#define INGOT_KERNELS kAmxPanelKernels
#define INGOT_ISA_NAME "amx"
#define INGOT_AMX 1
#include "ops/linear/panel_kernels.inc"
