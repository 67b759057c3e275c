// The ladders of a CUDA device in a build without CUDA.
#include "bench/device.h"
#include "ladder/ladder.h"

namespace ingot::ladder {

void bench_cuda_ladders(int index, const std::vector<std::string>&, Rivals*, const Listener&) { measure_device(index); }

}  // namespace ingot::ladder
