// Chooses the kernel of two formats.
#include "base/check.h"
#include "matmul/cuda/stream/stream_formats.cuh"
#include "ops/expert_linear/expert_one.cuh"

namespace ingot::cuda {
namespace {

// f(StreamBF16{}, StreamBF16{}), and so on: true where there is a kernel.
template <class F>
bool visit_one(Format up, Format down, F&& f) {
#define X(UP, DOWN)                                     \
  if (up == Format::k##UP && down == Format::k##DOWN) { \
    f(Stream##UP{}, Stream##DOWN{});                    \
    return true;                                        \
  }
  X(BF16, BF16)
  X(Q4_K, Q4_K)
  X(Q4_K, Q6_K)
#undef X
  return false;
}

}  // namespace

bool expert_one_has(Format up, Format down) {
  return visit_one(up, down, [](auto, auto) {});
}

int64_t expert_one_shared(Format up, Format down, const ExpertOneArgs& args, int blocks) {
  int64_t bytes = 0;
  visit_one(up, down, [&](auto g, auto d) { bytes = one_shared<decltype(g), decltype(d)>(args, blocks); });
  return bytes;
}

void run_expert_one(Format up, Format down, ExpertOneArgs args, const DeviceCtx& ctx) {
  const bool has = visit_one(up, down, [&](auto g, auto d) { run_one_formats<decltype(g), decltype(d)>(args, ctx); });
  CHECK(has, "experts of one row in {} and {}", format_name(up), format_name(down));
}

}  // namespace ingot::cuda
