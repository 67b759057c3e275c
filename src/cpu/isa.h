// The instruction sets that CPU kernels are compiled for (one source for each set, cmake/isa.cmake), and the one that
// is used: the best that this CPU runs, or the one named by the environment variable INGOT_ISA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ingot::cpu {

enum class Isa : uint8_t {
  kBaseline,
  kAvx2,  // with fma and f16c
  kAvx512,
  kAvx512Vnni,
  kAmx,
  kNeon,
  kDotprod,
  kI8mm,  // with bf16 and products of f16
};
inline constexpr size_t kIsas = 8;

// As INGOT_ISA spells it.
const char* isa_name(Isa isa);

// The one in use. Throws Error at the first call when INGOT_ISA names one that this CPU does not run.
Isa isa();

// Those that this CPU runs, best first. Tests go through all of them.
std::span<const Isa> available_isas();

// For tests: uses this one from now on, or the chosen one again. Not while an op runs. REQUIRES: it is available.
void use_isa(std::optional<Isa> isa);

}  // namespace ingot::cpu
