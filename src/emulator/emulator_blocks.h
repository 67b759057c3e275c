// Blocks that wait for others of their grid or share memory with them (cuda/blocks.cuh), without a GPU.
// The environment variable INGOT_EMULATED_ORDER is the order in which the blocks of every grid begin and have their
// turns: forward (as without it), reverse (turns forth and back), shuffled (some miss a turn; the same in every run).
#pragma once

#include "emulator/emulator.h"

namespace ingot::cuda::emulated {

// So many blocks of a grid whose blocks wait for earlier ones run in turn; the others begin where one has ended. A
// kernel that takes its part by blockIdx and waits for lower ones hangs here in reverse order, as it may on a device.
inline constexpr int kResident = 6;

// As run_grid(), with kResident blocks in turn, or at least one cluster: each `cluster` blocks along x.
void run_grid_in_turn(const dim3& grid, const dim3& threads, int64_t shared, int cluster,
                      const std::function<void()>& body);

int cluster_rank();
int cluster_blocks();
// What lies at the same place of that block's dynamic shared memory. Aborts where that block has ended.
void* of_cluster(void* shared, int rank);
// Waits for all threads of the cluster.
void meet_cluster();

// A matrix of 16-bit values (tensor_copy.cuh), and copies of its rectangles to each block of the cluster whose bit is
// in `blocks`. Aborts where the memory is not aligned as the device wants it.
struct TensorMap {
  const std::byte* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;  // stride: bytes
  int box_rows = 0;
  bool permuted = true;
};
void copy_box(void* shared, const TensorMap& map, int64_t col, int64_t row, CopyBarrier* barrier, uint32_t blocks);

// A block has written what others look for, and a thread that has looked in vain: aborts where all only look.
void published();
void look_again();

template <class... P, class... A>
void launch_in_turn(StreamRef stream, void (*kernel)(P...), const Launch& shape, int cluster, A&&... args) {
  CHECK(shape.shared <= 227 << 10, "{} bytes of shared memory", shape.shared);
  CHECK(cluster > 0 && cluster <= 16 && shape.grid.x % static_cast<unsigned>(cluster) == 0,
        "{} blocks in clusters of {}", shape.grid.x, cluster);
  emulated_work(stream, [kernel, shape, cluster, given = std::tuple<P...>(static_cast<P>(args)...)] {
    run_grid_in_turn(shape.grid, shape.threads, shape.shared, cluster, [&] {
      std::tuple<P...> own = given;
      std::apply([&](auto&... a) { kernel(a...); }, own);
    });
  });
}

}  // namespace ingot::cuda::emulated

namespace ingot::cuda {

template <class T>
unsigned __match_any_sync(unsigned mask, T x) {
  const auto [all, lane] = emulated::meet(x);
  unsigned bits = 0;
  for (int i = 0; i < 32; ++i) {
    if (((emulated::live_lanes() & mask) >> i & 1) != 0 && emulated::from<T>(all, i) == x) bits |= 1u << i;
  }
  return bits;
}

}  // namespace ingot::cuda
