#define INGOT_KERNELS kAvx512VnniPanelKernels
#define INGOT_ISA_NAME "avx512vnni"
#include "ops/linear/panel_kernels.inc"
