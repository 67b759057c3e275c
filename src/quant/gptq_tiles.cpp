#include "quant/gptq_tiles.h"

#include <vector>

namespace ingot {

#if defined(__x86_64__)
extern const GptqTiles kBaselineGptqTiles, kAvx2GptqTiles, kAvx512GptqTiles;
#elif defined(__aarch64__)
extern const GptqTiles kNeonGptqTiles;
#else
extern const GptqTiles kBaselineGptqTiles;
#endif

std::span<const GptqTiles* const> all_gptq_tiles() {
  static const std::vector<const GptqTiles*> all = [] {
    std::vector<const GptqTiles*> found;
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (avx512) found.push_back(&kAvx512GptqTiles);
    if (avx2) found.push_back(&kAvx2GptqTiles);
#endif
#if defined(__aarch64__)
    found.push_back(&kNeonGptqTiles);
#else
    found.push_back(&kBaselineGptqTiles);
#endif
    return found;
  }();
  return all;
}

}  // namespace ingot
