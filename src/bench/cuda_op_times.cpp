#include "bench/cuda_op_times.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "base/error.h"
#include "bench/cuda_op_bench_list.inc"

namespace ingot::cuda {

#define X(NAME) void bench_##NAME(Blas* blas, const TellTime& tell);
INGOT_CUDA_OP_BENCHES(X)
#undef X

void time_ops(const std::vector<std::string>& names, Blas* blas, const TellTime& tell) {
  const std::map<std::string, void (*)(Blas*, const TellTime&)> known = {
#define X(NAME) {#NAME, bench_##NAME},
      INGOT_CUDA_OP_BENCHES(X)
#undef X
  };
  for (const std::string& name : names) {
    if (!known.contains(name)) {
      throw Error("[bench] there is no operator '{}' on a GPU; known are {}", name,
                  fmt::join(std::views::keys(known), ", "));
    }
  }
  for (const auto& [name, bench] : known) {
    if (names.empty() || std::ranges::find(names, name) != names.end()) bench(blas, tell);
  }
}

}  // namespace ingot::cuda
