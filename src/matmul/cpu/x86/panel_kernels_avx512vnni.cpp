// The panel kernels for x86-64 with AVX-512 VNNI.
#define INGOT_ISA avx512vnni
#include "matmul/cpu/panel_table.h"

namespace ingot::cpu {

extern const PanelKernels kAvx512VnniPanelKernels;
const PanelKernels kAvx512VnniPanelKernels = avx512vnni::kPanelTable;

}  // namespace ingot::cpu
