// A build without ladders: -DINGOT_LADDER=OFF.
#include "base/error.h"
#include "ladder/ladder.h"

namespace ingot::ladder {

std::span<const StepInfo> steps() { return {}; }

void bench_ladders(ThreadPool&, const std::vector<std::string>&, Rivals*, const Listener&) {
  throw Error("[bench] this build has no ladders (see INGOT_LADDER in the README)");
}

void bench_cuda_ladders(int, const std::vector<std::string>&, Rivals*, const Listener&) {
  throw Error("[bench] this build has no ladders (see INGOT_LADDER in the README)");
}

}  // namespace ingot::ladder
