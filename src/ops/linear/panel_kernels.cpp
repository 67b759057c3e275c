#include "ops/linear/panel_kernels.h"

namespace ingot::cpu {

int64_t expanded_bytes(const PackedWeight& weight, int64_t panels) {
  if (!is_quantized(weight.kind)) return 0;
  return panels * visit_panel(weight.kind, [&](auto layout) {
           const int64_t floats = kPanelRows * (layout.kMin ? 2 : 1);
           return weight.cols * kPanelRows + weight.cols / layout.kGroup * floats * int64_t{4};
         });
}

}  // namespace ingot::cpu
