// The panel kernels for x86-64 with AMX for int8 and bf16.
#define INGOT_ISA amx
#include "matmul/cpu/panel_table.h"

namespace ingot::cpu {

extern const PanelKernels kAmxPanelKernels;
const PanelKernels kAmxPanelKernels = amx::kPanelTable;

}  // namespace ingot::cpu
