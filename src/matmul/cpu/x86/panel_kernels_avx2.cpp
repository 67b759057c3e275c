// The panel kernels for x86-64 with AVX2, FMA and F16C.
#define INGOT_ISA avx2
#include "matmul/cpu/panel_table.h"

namespace ingot::cpu {

extern const PanelKernels kAvx2PanelKernels;
const PanelKernels kAvx2PanelKernels = avx2::kPanelTable;

}  // namespace ingot::cpu
