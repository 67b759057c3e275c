#include "matmul/cpu/kernels.h"

#include <array>
#include <vector>

#include "base/check.h"

namespace ingot::cpu {

#if defined(__x86_64__)
extern const Kernels kBaselineKernels, kAvx2Kernels, kAvx512Kernels;
extern const PanelKernels kBaselinePanelKernels, kAvx2PanelKernels, kAvx512PanelKernels, kAvx512VnniPanelKernels,
    kAmxPanelKernels;
#elif defined(__aarch64__)
extern const Kernels kNeonKernels;
extern const PanelKernels kNeonPanelKernels, kDotprodPanelKernels, kI8mmPanelKernels;
#else
extern const Kernels kBaselineKernels;
extern const PanelKernels kBaselinePanelKernels;
#endif

namespace {

// Those of packed weights are made for more sets.
Kernels make(Isa isa, const Kernels& kernels, const PanelKernels& panels) {
  Kernels made = kernels;
  made.name = isa_name(isa);
  made.panels = &panels;
  made.isa = isa;
  return made;
}

Kernels kernels_of(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAmx:
      return make(isa, kAvx512Kernels, kAmxPanelKernels);
    case Isa::kAvx512Vnni:
      return make(isa, kAvx512Kernels, kAvx512VnniPanelKernels);
    case Isa::kAvx512:
      return make(isa, kAvx512Kernels, kAvx512PanelKernels);
    case Isa::kAvx2:
      return make(isa, kAvx2Kernels, kAvx2PanelKernels);
#endif
#if defined(__aarch64__)
    case Isa::kI8mm:
      return make(isa, kNeonKernels, kI8mmPanelKernels);
    case Isa::kDotprod:
      return make(isa, kNeonKernels, kDotprodPanelKernels);
    case Isa::kNeon:
      return make(isa, kNeonKernels, kNeonPanelKernels);
#else
    case Isa::kBaseline:
      return make(isa, kBaselineKernels, kBaselinePanelKernels);
#endif
    default:
      CHECK(false, "no kernels of the set {}", isa_name(isa));
      __builtin_unreachable();
  }
}

// One for each set that this CPU runs, where its number says.
struct Table {
  std::array<Kernels, kIsas> of = {};
  std::vector<const Kernels*> available;

  Table() {
    for (const Isa isa : available_isas()) {
      Kernels& made = of[static_cast<size_t>(isa)];
      made = kernels_of(isa);
      available.push_back(&made);
    }
  }
};

const Table& table() {
  static const Table made;
  return made;
}

}  // namespace

std::span<const Kernels* const> available_kernels() { return table().available; }

const Kernels& kernels() { return table().of[static_cast<size_t>(isa())]; }

void use_kernels(const Kernels* set) { use_isa(set == nullptr ? std::nullopt : std::optional(set->isa)); }

}  // namespace ingot::cpu
