#include "ops/kernels.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"

namespace ingot::cpu {

#if defined(__aarch64__)
extern const Kernels kNeonKernels;
#else
extern const Kernels kBaselineKernels;
#endif
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels, kAvx512Kernels;
#endif

namespace {

std::vector<const Kernels*> find_available() {
  std::vector<const Kernels*> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    found.push_back(&kAvx512Kernels);
  if (avx2) found.push_back(&kAvx2Kernels);
#endif
#if defined(__aarch64__)
  found.push_back(&kNeonKernels);
#else
  found.push_back(&kBaselineKernels);
#endif
  return found;
}

const Kernels* choose() {
  const std::span<const Kernels* const> all = available_kernels();
  const char* wanted = std::getenv("INGOT_ISA");
  if (wanted == nullptr || *wanted == '\0') return all.front();
  std::string names;
  for (const Kernels* set : all) {
    if (std::strcmp(set->name, wanted) == 0) return set;
    names += std::string(names.empty() ? "" : ", ") + set->name;
  }
  throw Error("[ops] INGOT_ISA is '{}', but this CPU runs only {}", wanted, names);
}

const Kernels* forced = nullptr;

}  // namespace

std::span<const Kernels* const> available_kernels() {
  static const std::vector<const Kernels*> all = find_available();
  return all;
}

const Kernels& kernels() {
  static const Kernels* const chosen = choose();
  return forced != nullptr ? *forced : *chosen;
}

void use_kernels(const Kernels* set) { forced = set; }

}  // namespace ingot::cpu
