#include "ops/linear/panel_kernels.h"

#include "quant/panels.h"

namespace ingot::cpu {

int64_t expanded_bytes(const PackedWeight& weight, int64_t panels) {
  if (!is_quantized(weight.kind)) return 0;
  return panels *
         visit_panel(weight.kind, [&](auto layout) { return ExpandedLayout<decltype(layout)>::bytes(weight.cols); });
}

}  // namespace ingot::cpu
