// The panel kernels for AArch64, every one of which has NEON.
#define INGOT_ISA neon
#include "matmul/cpu/panel_table.h"

namespace ingot::cpu {

extern const PanelKernels kNeonPanelKernels;
const PanelKernels kNeonPanelKernels = neon::kPanelTable;

}  // namespace ingot::cpu
