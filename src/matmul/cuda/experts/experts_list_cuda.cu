#include "matmul/cuda/experts/experts_list.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 1024;

__global__ void __launch_bounds__(kThreads) list_kernel(const ExpertChoice choice, int tile, const ExpertList list) {
  let_next_begin();
  wait_for_inputs();
  make_list(choice, *choice.true_rows, tile, list, shared_memory<std::byte>());
}

}  // namespace

void list_experts(const ExpertChoice& choice, int64_t rows, int tile, const ExpertList& list, const DeviceCtx& ctx) {
  const int64_t places = rows * choice.used;
  const int64_t threads = places <= 256 ? 256 : kThreads;
  launch(ctx, list_kernel, {dim3(1), dim3(threads), list_shared(choice.count)}, choice, tile, list);
}

}  // namespace ingot::cuda
