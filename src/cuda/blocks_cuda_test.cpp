#include <cstdlib>

#include "base/random_test_support.h"
#include "cuda/device_test_support.h"
#include "cuda/probe.h"

namespace ingot {
namespace {

using namespace test;

// Runs f with the emulator's blocks in each order.
template <class F>
void in_every_order(F&& f) {
  for (const char* order : {"forward", "reverse", "shuffled"}) {
    SCOPED_TRACE(order);
    setenv("INGOT_EMULATED_ORDER", order, 1);
    f();
  }
  unsetenv("INGOT_EMULATED_ORDER");
}

TEST(CudaBlocks, LanesWithTheSameValue) {
  INGOT_NEEDS_DEVICE();
  TestDevice rig;
  Random random(3);
  for (const int below : {1, 2, 7, 40}) {
    std::vector<uint32_t> x(96), got(96);
    for (uint32_t& v : x) v = static_cast<uint32_t>(random.below(below)) << 27;
    auto* out = reinterpret_cast<uint32_t*>(rig.allocate(384));
    cuda::DeviceMemory in(384);
    cuda::copy_to_device(in.data(), x.data(), 384, rig.stream());
    cuda::probe_match(rig.ctx(), reinterpret_cast<const uint32_t*>(in.data()), 96, out);
    rig.download(got.data(), reinterpret_cast<std::byte*>(out), 384);
    for (size_t i = 0; i < 96; ++i)
      for (size_t k = 0; k < 32; ++k)
        EXPECT_EQ(got[i] >> k & 1, x[i] == x[i / 32 * 32 + k] ? 1u : 0u) << i << ", " << k;
  }
}

TEST(CudaBlocks, EachWaitsForTheOneThatBeganBefore) {
  INGOT_NEEDS_DEVICE();
  in_every_order([] {
    for (const int blocks : {1, 5, 300}) {
      TestDevice rig;
      cuda::DeviceMemory words((blocks + 1) * 8);
      cuda::fill_bytes(words.data(), 0, words.bytes(), rig.stream());
      std::byte* out = rig.allocate(blocks * 8);
      cuda::probe_chain(rig.ctx(), blocks, reinterpret_cast<uint64_t*>(words.data()), reinterpret_cast<uint64_t*>(out));
      std::vector<uint64_t> got(static_cast<size_t>(blocks));
      rig.download(got.data(), out, blocks * 8);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], (i + 1) * (i + 2) / 2) << i;
    }
  });
}

TEST(CudaBlocks, ClustersReachEachOthersMemory) {
  INGOT_NEEDS_DEVICE();
  const int arch = TestDevice().ctx().arch;
  if (arch < 90) GTEST_SKIP() << "compute capability " << arch;
  in_every_order([] {
    for (const int size : {1, 2, 8, 16}) {
      TestDevice rig;
      const int n = 3 * size * 64;
      std::vector<uint32_t> x(static_cast<size_t>(n)), got(x.size());
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint32_t>(i * 2654435761u);
      auto* in = reinterpret_cast<uint32_t*>(rig.upload(x.data(), n * 4));
      auto* out = reinterpret_cast<uint32_t*>(rig.allocate(n * 4));
      cuda::probe_clusters(rig.ctx(), 3, size, in, out);
      rig.download(got.data(), reinterpret_cast<std::byte*>(out), n * 4);
      const auto blocks = static_cast<size_t>(size);
      for (size_t i = 0; i < x.size(); ++i) {
        const size_t block = i / 64, next = block / blocks * blocks + (block + 1) % blocks;
        EXPECT_EQ(got[i], x[next * 64 + i % 64]) << size << ": " << i;
      }
    }
  });
}

TEST(CudaBlocks, TensorCopiesForOneAndForAllOfACluster) {
  INGOT_NEEDS_DEVICE();
  const int arch = TestDevice().ctx().arch;
  if (arch != 90) GTEST_SKIP() << "compute capability " << arch;
  in_every_order([] {
    // Inside, and beyond the last row and column.
    for (const cuda::TensorProbe p : {cuda::TensorProbe{1, 16, 64, 0, 0}, cuda::TensorProbe{2, 90, 200, 5, 64},
                                      cuda::TensorProbe{4, 70, 200, 24, 144}}) {
      TestDevice rig;
      std::vector<uint16_t> x(static_cast<size_t>(p.rows * p.cols));
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i * 40503u + 1);
      const int boxes = p.size + 1, box = cuda::kTensorProbeRows * 64;
      std::vector<uint16_t> got(static_cast<size_t>(p.size * boxes * box));
      const auto bytes = static_cast<int64_t>(got.size() * 2);
      auto* in = reinterpret_cast<uint16_t*>(rig.upload(x.data(), static_cast<int64_t>(x.size() * 2)));
      std::byte* out = rig.allocate(bytes);
      cuda::probe_tensor_copies(rig.ctx(), p, in, reinterpret_cast<uint16_t*>(out));
      rig.download(got.data(), out, bytes);
      size_t wrong = 0;
      for (int i = 0; i < static_cast<int>(got.size()); ++i) {
        const int block = i / (boxes * box), which = i / box % boxes, r = i % box / 64, c = p.col + i % 64;
        const int row = p.row + r + (which < p.size ? which * cuda::kTensorProbeRows : block);
        const bool there = row < p.rows && c < p.cols;
        wrong += got[static_cast<size_t>(i)] != (there ? x[static_cast<size_t>(row * p.cols + c)] : 0);
      }
      EXPECT_EQ(wrong, 0u) << "clusters of " << p.size;
    }
  });
}

}  // namespace
}  // namespace ingot
