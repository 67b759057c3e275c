#include <algorithm>

#include "emulator/emulator_blocks.h"

namespace ingot::cuda {
namespace {

void settle(CopyBarrier* barrier) {
  if (barrier->missing != 0 || barrier->pieces != 0) return;
  barrier->parity ^= 1;
  barrier->missing = barrier->arrivals;
}

}  // namespace

void barrier_init(CopyBarrier* barrier, int arrivals) {
  *barrier = {.parity = 0,
              .arrivals = static_cast<uint16_t>(arrivals),
              .missing = static_cast<uint16_t>(arrivals),
              .pieces = 0};
}

void barrier_arrive(CopyBarrier* barrier) {
  CHECK(barrier->missing > 0, "more arrivals than the barrier has");
  --barrier->missing;
  settle(barrier);
}

void barrier_expect(CopyBarrier* barrier, uint32_t bytes) {
  barrier->pieces = static_cast<int16_t>(barrier->pieces + static_cast<int>(bytes / 16));
  barrier_arrive(barrier);
}

void barrier_wait(CopyBarrier* barrier, uint32_t parity) {
  while (barrier->parity == (parity & 1)) emulated::wait_a_while();
}

void copy_bulk(void* shared, const void* global, uint32_t bytes, CopyBarrier* barrier, bool) {
  CHECK(
      bytes % 16 == 0 && reinterpret_cast<uintptr_t>(shared) % 16 == 0 && reinterpret_cast<uintptr_t>(global) % 16 == 0,
      "a bulk copy of {} bytes that are not aligned", bytes);
  std::memcpy(shared, global, bytes);
  barrier->pieces = static_cast<int16_t>(barrier->pieces - static_cast<int>(bytes / 16));
  settle(barrier);
}

namespace emulated {
namespace {

// 16 bytes of a matrix, zeros beyond its last row and column.
void read_piece(std::byte* to, const TensorMap& map, int64_t row, int64_t col) {
  std::memset(to, 0, 16);
  if (row < 0 || row >= map.rows || col < 0 || col >= map.cols) return;
  const auto values = static_cast<size_t>(std::min<int64_t>(map.cols - col, 8));
  std::memcpy(to, map.data + row * map.stride + col * 2, values * 2);
}

}  // namespace

void copy_box(void* shared, const TensorMap& map, int64_t col, int64_t row, CopyBarrier* barrier, uint32_t blocks) {
  const auto offset = static_cast<std::byte*>(shared) - dynamic_shared();
  CHECK(offset % 1024 == 0 && col % 8 == 0, "a tensor copy to {}, from column {}", offset, col);
  CHECK(blocks != 0 && blocks >> cluster_blocks() == 0, "blocks {:x} of a cluster of {}", blocks, cluster_blocks());
  for (int rank = 0; rank < cluster_blocks(); ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    auto* to = static_cast<std::byte*>(of_cluster(shared, rank));
    for (int r = 0; r < map.box_rows; ++r)
      for (int piece = 0; piece < 8; ++piece)
        read_piece(to + r * 128 + (map.permuted ? piece ^ (r & 7) : piece) * 16, map, row + r, col + 8 * piece);
    auto* there = static_cast<CopyBarrier*>(of_cluster(barrier, rank));
    there->pieces = static_cast<int16_t>(there->pieces - 8 * map.box_rows);
    settle(there);
  }
}

}  // namespace emulated

}  // namespace ingot::cuda
