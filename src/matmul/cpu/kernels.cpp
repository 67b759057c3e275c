#include "matmul/cpu/kernels.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace ingot::cpu {

#if defined(__x86_64__)
extern const Kernels kBaselineKernels, kAvx2Kernels, kAvx512Kernels;
extern const AttentionKernels kBaselineAttentionKernels, kAvx2AttentionKernels, kAvx512AttentionKernels;
extern const PanelKernels kBaselinePanelKernels, kAvx2PanelKernels, kAvx512PanelKernels, kAvx512VnniPanelKernels,
    kAmxPanelKernels;
#elif defined(__aarch64__)
extern const Kernels kNeonKernels;
extern const AttentionKernels kNeonAttentionKernels, kI8mmAttentionKernels;
extern const PanelKernels kNeonPanelKernels, kDotprodPanelKernels, kI8mmPanelKernels;
#else
extern const Kernels kBaselineKernels;
extern const AttentionKernels kBaselineAttentionKernels;
extern const PanelKernels kBaselinePanelKernels;
#endif

namespace {

// A set's name, its kernels, and those of packed weights, which are made for more sets.
Kernels make(const char* name, const Kernels& kernels, const AttentionKernels& attention, const PanelKernels& panels) {
  Kernels made = kernels;
  made.name = name;
  made.attention = &attention;
  made.panels = &panels;
  return made;
}

#if defined(__x86_64__)
// Whether the CPU has AMX with int8 and bf16, and the system lets this process keep tiles.
bool amx_allowed() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  if ((d & (kBf16 | kTile | kInt8)) != (kBf16 | kTile | kInt8)) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

std::vector<Kernels> find_sets() {
  std::vector<Kernels> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (vnni && amx_allowed()) found.push_back(make("amx", kAvx512Kernels, kAvx512AttentionKernels, kAmxPanelKernels));
  if (vnni) found.push_back(make("avx512vnni", kAvx512Kernels, kAvx512AttentionKernels, kAvx512VnniPanelKernels));
  if (avx512) found.push_back(make("avx512", kAvx512Kernels, kAvx512AttentionKernels, kAvx512PanelKernels));
  if (avx2) found.push_back(make("avx2", kAvx2Kernels, kAvx2AttentionKernels, kAvx2PanelKernels));
  found.push_back(make("baseline", kBaselineKernels, kBaselineAttentionKernels, kBaselinePanelKernels));
#elif defined(__aarch64__)
  const unsigned long caps = getauxval(AT_HWCAP), more = getauxval(AT_HWCAP2);
  constexpr unsigned long kHalves = HWCAP_FPHP | HWCAP_ASIMDHP | HWCAP_ASIMDFHM;
  if ((caps & HWCAP_ASIMDDP) != 0 && (caps & kHalves) == kHalves && (more & HWCAP2_I8MM) != 0 &&
      (more & HWCAP2_BF16) != 0)
    found.push_back(make("i8mm", kNeonKernels, kI8mmAttentionKernels, kI8mmPanelKernels));
  if ((caps & HWCAP_ASIMDDP) != 0)
    found.push_back(make("dotprod", kNeonKernels, kNeonAttentionKernels, kDotprodPanelKernels));
  found.push_back(make("neon", kNeonKernels, kNeonAttentionKernels, kNeonPanelKernels));
#else
  found.push_back(make("baseline", kBaselineKernels, kBaselineAttentionKernels, kBaselinePanelKernels));
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
  static const std::vector<Kernels> sets = find_sets();
  static const std::vector<const Kernels*> all = [] {
    std::vector<const Kernels*> pointers;
    for (const Kernels& set : sets) pointers.push_back(&set);
    return pointers;
  }();
  return all;
}

const Kernels& kernels() {
  static const Kernels* const chosen = choose();
  return forced != nullptr ? *forced : *chosen;
}

void use_kernels(const Kernels* set) { forced = set; }

}  // namespace ingot::cpu
