// Kernels that wait for those of other devices (cuda/peers.cuh), without a GPU: each device is a thread of the host,
// and while all that its kernel does is to look at memory the others have their turns.
#pragma once

#include "emulator/emulator.h"

namespace ingot::cuda::emulated {

// As run_grid(), one block after another. The kernel has no __shared__ memory: others are run while it waits.
void run_grid_among_peers(const dim3& grid, const dim3& threads, int64_t shared, const std::function<void()>& body);

int64_t now_ns();

template <class... P, class... A>
void launch_peers(StreamRef stream, void (*kernel)(P...), const Launch& shape, A&&... args) {
  emulated_work(stream, [kernel, shape, given = std::tuple<P...>(static_cast<P>(args)...)] {
    run_grid_among_peers(shape.grid, shape.threads, shape.shared, [&] {
      std::tuple<P...> own = given;  // every thread has parameters of its own
      std::apply([&](auto&... a) { kernel(a...); }, own);
    });
  });
}

}  // namespace ingot::cuda::emulated
