// The border to CUDA in a build without it.
#include "base/error.h"
#include "engine/model/cuda.h"

namespace ingot {

std::string cuda_refusal(int) { return "this build has no CUDA (see INGOT_CUDA in the README)"; }

std::unique_ptr<DeviceModel> make_cuda_model(const Model&, const DeviceRunOptions& options) {
  throw Error("[device] {}", cuda_refusal(options.device.cuda));
}

}  // namespace ingot
