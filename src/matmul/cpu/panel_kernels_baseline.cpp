// The panel kernels for any CPU of the architecture.
#define INGOT_ISA baseline
#include "matmul/cpu/panel_table.h"

namespace ingot::cpu {

extern const PanelKernels kBaselinePanelKernels;
const PanelKernels kBaselinePanelKernels = baseline::kPanelTable;

}  // namespace ingot::cpu
