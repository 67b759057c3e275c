#include "matmul/cpu/panel_kernels.h"

#include "quant/panels.h"

namespace ingot::cpu {

int64_t expanded_bytes(const PackedWeight& weight, int64_t panels) {
  if (!is_quantized(weight.kind)) return 0;
  return panels *
         visit_panel(weight.kind, [&](auto layout) { return ExpandedLayout<decltype(layout)>::bytes(weight.cols); });
}

int fields_of(const PackedWeight& weight, bool only_expanded) {
  if (!is_quantized(weight.kind)) return 0;
  return visit_panel(weight.kind, [&](auto layout) {
    using L = decltype(layout);
    // Where the zero point is not taken off the bytes, the sums of x are needed.
    const bool zero = !L::kMiddle && !L::kMin && weight.zero != (L::kFlip == 0 ? 0 : 128);
    if (L::kCoarse || (zero && !only_expanded)) return kAllFields;
    return L::kMin ? (L::kGroups == 2 ? kHalfFields : kSumFields) : kScaleField;
  });
}

}  // namespace ingot::cpu
