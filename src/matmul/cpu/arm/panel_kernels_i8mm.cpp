// The panel kernels for AArch64 with i8mm, bf16 and fp16fml.
#define INGOT_ISA i8mm
#include "matmul/cpu/panel_table.h"

namespace ingot::cpu {

extern const PanelKernels kI8mmPanelKernels;
const PanelKernels kI8mmPanelKernels = i8mm::kPanelTable;

}  // namespace ingot::cpu
