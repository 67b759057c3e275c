// Work on GPUs in a build without CUDA.
#include "base/error.h"
#include "devices/gpu_work.h"

namespace ingot {
namespace {

[[noreturn]] void refuse() { throw Error("[device] this build has no CUDA (see INGOT_CUDA in the README)"); }

}  // namespace

std::vector<std::string> cuda_bus_ids() { return {}; }

GpuPair test_gpu_pair(int, int, int64_t) { refuse(); }

GpuTest test_gpus(const std::vector<int>&, int64_t, const std::function<void(const GpuPair&)>&) { refuse(); }

void time_gpu_comm(const std::vector<cuda::DevicePlace>&, int64_t, int64_t,
                   const std::function<void(const GpuCommTime&)>&) {
  refuse();
}

std::unique_ptr<EqualProduct> make_gpu_product(int, const MatmulSize&) { refuse(); }

}  // namespace ingot
