#include "bench/multiplier.h"

#include <string_view>
#include <utility>

#include "base/check.h"
#include "cpu/isa.h"

namespace ingot::cpu {

#if defined(__x86_64__)
extern const Multiplier kBaselineMultiplier, kAvx2Multiplier, kAvx512Multiplier, kAvx512VnniMultiplier, kAmxMultiplier;
#elif defined(__aarch64__)
extern const Multiplier kNeonMultiplier, kDotprodMultiplier, kI8mmMultiplier;
#else
extern const Multiplier kBaselineMultiplier;
#endif

const Multiplier& multiplier() {
  static constexpr std::pair<std::string_view, const Multiplier*> kAll[] = {
#if defined(__x86_64__)
    {"avx2", &kAvx2Multiplier},
    {"avx512", &kAvx512Multiplier},
    {"avx512vnni", &kAvx512VnniMultiplier},
    {"amx", &kAmxMultiplier},
    {"baseline", &kBaselineMultiplier},
#elif defined(__aarch64__)
    {"neon", &kNeonMultiplier},
    {"dotprod", &kDotprodMultiplier},
    {"i8mm", &kI8mmMultiplier},
#else
    {"baseline", &kBaselineMultiplier},
#endif
  };
  for (const auto& [name, made] : kAll) {
    if (name == isa_name(isa())) return *made;
  }
  CHECK(false, "no multiplier of the set {}", isa_name(isa()));
  __builtin_unreachable();
}

}  // namespace ingot::cpu
