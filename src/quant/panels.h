// Weights into packed panels (panel_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel_layout.h"
#include "quant/weight.h"

namespace ingot {

// Calls f(PanelLayoutOf<…>{}) with the layout of a quantized kind.
template <class F>
decltype(auto) visit_panel(PanelKind kind, F&& f) {
  switch (kind) {
#define X(NAME, ...)       \
  case PanelKind::k##NAME: \
    return f(PanelLayoutOf<PanelKind::k##NAME>{});
    INGOT_PANELS(X)
#undef X
    case PanelKind::kNone:
    case PanelKind::kF16:
    case PanelKind::kBF16:
      break;
  }
  CHECK(false, "panel kind {}", static_cast<int>(kind));
  __builtin_unreachable();
}

// The panels of a weight's format, `data` not yet set; kind kNone where there are none.
PackedWeight panels_of(const Weight& weight);

// Writes panel `i` of `weight` to `out`, panel_bytes long. Rows past the last are zeros.
void pack_panel(const Weight& weight, const PackedWeight& packed, int64_t i, std::byte* out);

}  // namespace ingot
