#include "ladder/set.h"

#include "cpu/isa.h"

namespace ingot::ladder {

LadderSet ladder_set() {
  switch (cpu::isa()) {
    case cpu::Isa::kBaseline:
      break;
    case cpu::Isa::kAvx2:
      return LadderSet::kAvx2;
    case cpu::Isa::kAvx512:
    case cpu::Isa::kAvx512Vnni:
    case cpu::Isa::kAmx:
      return LadderSet::kAvx512;
    case cpu::Isa::kNeon:
    case cpu::Isa::kDotprod:
    case cpu::Isa::kI8mm:
      return LadderSet::kNeon;
  }
  return LadderSet::kBaseline;
}

}  // namespace ingot::ladder
