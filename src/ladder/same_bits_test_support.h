// The test of steps whose result has the same bits every run.
#pragma once

#include "ladder/step_test_support.h"

namespace ingot::test {

// The last CUDA step of the operator x → out three times, in each order of blocks that the emulator knows.
template <class Op>
void expect_same_bits(Buffer& x, Buffer& out) {
  if (cuda::device_count() == 0) return;
  std::vector<std::byte> first;
  for (const char* order : {"forward", "reverse", "shuffled"}) {
    setenv("INGOT_EMULATED_ORDER", order, 1);
    TestDevice device({.overlap = false});
    Op op{.x = x.tensor(), .out = out.tensor()};
    const auto bytes = [](const Tensor& t) { return t.cols * 4; };
    op.x.data = device.upload(op.x.data, bytes(op.x));
    op.out.data = device.allocate(bytes(op.out));
    cuda::Ctx ctx;
    static_cast<cuda::DeviceCtx&>(ctx) = device.ctx();
    ctx.scratch_bytes = ladder::scratch_bytes(op);
    ctx.scratch = device.allocate(ctx.scratch_bytes);
    ladder::cuda_steps<Op>().back().run(op, ctx);
    std::vector<std::byte> got(static_cast<size_t>(bytes(op.out)));
    device.download(got.data(), op.out.data, bytes(op.out));
    if (first.empty()) first = got;
    EXPECT_TRUE(got == first) << order;
  }
  unsetenv("INGOT_EMULATED_ORDER");
}

}  // namespace ingot::test
