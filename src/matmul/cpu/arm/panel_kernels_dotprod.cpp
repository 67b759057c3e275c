// The panel kernels for AArch64 with dotprod.
#define INGOT_ISA dotprod
#include "matmul/cpu/panel_table.h"

namespace ingot::cpu {

extern const PanelKernels kDotprodPanelKernels;
const PanelKernels kDotprodPanelKernels = dotprod::kPanelTable;

}  // namespace ingot::cpu
