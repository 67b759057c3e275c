#include "cpu/isa.h"

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
namespace {

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

std::vector<Isa> find_sets() {
  std::vector<Isa> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (vnni && amx_allowed()) found.push_back(Isa::kAmx);
  if (vnni) found.push_back(Isa::kAvx512Vnni);
  if (avx512) found.push_back(Isa::kAvx512);
  if (avx2) found.push_back(Isa::kAvx2);
  found.push_back(Isa::kBaseline);
#elif defined(__aarch64__)
  const unsigned long caps = getauxval(AT_HWCAP), more = getauxval(AT_HWCAP2);
  constexpr unsigned long kHalves = HWCAP_FPHP | HWCAP_ASIMDHP | HWCAP_ASIMDFHM;
  if ((caps & HWCAP_ASIMDDP) != 0 && (caps & kHalves) == kHalves && (more & HWCAP2_I8MM) != 0 &&
      (more & HWCAP2_BF16) != 0)
    found.push_back(Isa::kI8mm);
  if ((caps & HWCAP_ASIMDDP) != 0) found.push_back(Isa::kDotprod);
  found.push_back(Isa::kNeon);
#else
  found.push_back(Isa::kBaseline);
#endif
  return found;
}

Isa choose() {
  const std::span<const Isa> all = available_isas();
  const char* wanted = std::getenv("INGOT_ISA");
  if (wanted == nullptr || *wanted == '\0') return all.front();
  std::string names;
  for (const Isa set : all) {
    if (std::strcmp(isa_name(set), wanted) == 0) return set;
    names += std::string(names.empty() ? "" : ", ") + isa_name(set);
  }
  throw Error("[ops] INGOT_ISA is '{}', but this CPU runs only {}", wanted, names);
}

std::optional<Isa> forced;

}  // namespace

const char* isa_name(Isa isa) {
  constexpr const char* kNames[kIsas] = {"baseline", "avx2", "avx512", "avx512vnni", "amx", "neon", "dotprod", "i8mm"};
  return kNames[static_cast<size_t>(isa)];
}

std::span<const Isa> available_isas() {
  static const std::vector<Isa> sets = find_sets();
  return sets;
}

Isa isa() {
  static const Isa chosen = choose();
  return forced ? *forced : chosen;
}

void use_isa(std::optional<Isa> isa) { forced = isa; }

}  // namespace ingot::cpu
