// The panel kernels for x86-64 with AVX-512 F, BW, VL and DQ.
#define INGOT_ISA avx512
#include "matmul/cpu/panel_table.h"

namespace ingot::cpu {

extern const PanelKernels kAvx512PanelKernels;
const PanelKernels kAvx512PanelKernels = avx512::kPanelTable;

}  // namespace ingot::cpu
