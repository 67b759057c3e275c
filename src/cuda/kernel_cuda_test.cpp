#include "base/random_test_support.h"
#include "cuda/device_test_support.h"
#include "cuda/probe.h"

namespace ingot {
namespace {

using namespace test;

TEST(CudaDevice, MatrixInstructionsAndTheirFragments) {
  INGOT_NEEDS_DEVICE();
  TestDevice rig;
  Random random(1);
  std::vector<float> a(256), b(128), c(128);
  for (float& v : a) v = static_cast<float>(random.below(17) - 8);  // exact in bf16, and so are the sums
  for (float& v : b) v = static_cast<float>(random.below(17) - 8);
  float* out = reinterpret_cast<float*>(rig.allocate(512));
  cuda::probe_product(rig.ctx(), reinterpret_cast<const float*>(rig.upload(a.data(), 1024)),
                      reinterpret_cast<const float*>(rig.upload(b.data(), 512)), out);
  rig.download(c.data(), reinterpret_cast<std::byte*>(out), 512);
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 8; ++j) {
      float want = 0;
      for (size_t k = 0; k < 16; ++k) want += a[i * 16 + k] * b[k * 8 + j];
      EXPECT_EQ(c[i * 8 + j], want) << i << ", " << j;
    }
}

TEST(CudaDevice, ProductsOfWarpgroups) {
  INGOT_NEEDS_DEVICE();
  const int arch = TestDevice().ctx().arch;
  if (arch != 90) GTEST_SKIP() << "compute capability " << arch;
  Random random(7);
  for (const size_t n : {8u, 24u, 48u, 64u, 128u, 256u}) {
    TestDevice rig;
    std::vector<float> a(64 * 64), b(64 * n), c(64 * n);
    for (float& v : a) v = static_cast<float>(random.below(17) - 8);
    for (float& v : b) v = static_cast<float>(random.below(17) - 8);
    const auto* on_a = reinterpret_cast<const float*>(rig.upload(a.data(), static_cast<int64_t>(a.size() * 4)));
    const auto* on_b = reinterpret_cast<const float*>(rig.upload(b.data(), static_cast<int64_t>(b.size() * 4)));
    const auto bytes = static_cast<int64_t>(c.size() * 4);
    std::byte* out = rig.allocate(bytes);
    for (int kind = 0; kind < 8; ++kind) {
      const cuda::GroupProbe probe{static_cast<int>(n), kind % 2 == 0, kind / 2 % 2 == 0, kind / 4 == 0};
      cuda::probe_group_product(rig.ctx(), probe, on_a, on_b, reinterpret_cast<float*>(out));
      rig.download(c.data(), out, bytes);
      size_t wrong = 0;
      for (size_t i = 0; i < 64 * n; ++i) {
        float want = 0;
        for (size_t k = 0; k < 64; ++k) want += 2 * a[i / n * 64 + k] * b[k * n + i % n];
        wrong += c[i] != want;
      }
      EXPECT_EQ(wrong, 0u) << "n " << n << ", kind " << kind;
    }
  }
}

TEST(CudaDevice, WarpgroupsMultiplyFloatsOf8Bits) {
  INGOT_NEEDS_DEVICE();
  TestDevice rig;
  if (rig.ctx().arch != 90) GTEST_SKIP() << "compute capability 9.0 alone";
  for (const size_t n : {32u, 64u, 128u}) {
    // Small integers: every sum is exact.
    std::vector<float> a(64 * 128), b(n * 128), c(64 * n);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 9) - 4;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 13) - 6;
    const auto* on_a = reinterpret_cast<const float*>(rig.upload(a.data(), static_cast<int64_t>(a.size() * 4)));
    const auto* on_b = reinterpret_cast<const float*>(rig.upload(b.data(), static_cast<int64_t>(b.size() * 4)));
    const auto bytes = static_cast<int64_t>(c.size() * 4);
    std::byte* out = rig.allocate(bytes);
    cuda::probe_group_product_e4m3(rig.ctx(), static_cast<int>(n), on_a, on_b, reinterpret_cast<float*>(out));
    rig.download(c.data(), out, bytes);
    size_t wrong = 0;
    for (size_t i = 0; i < c.size(); ++i) {
      float want = 0;
      for (size_t k = 0; k < 128; ++k) want += 2 * a[i / n * 128 + k] * b[i % n * 128 + k];
      wrong += c[i] != want;
    }
    EXPECT_EQ(wrong, 0u) << "n " << n;
  }
}

TEST(CudaDevice, BulkCopiesBarriersAndShuffles) {
  INGOT_NEEDS_DEVICE();
  TestDevice rig;
  for (const int n : {64, 96 * 2, 1024}) {
    std::vector<float> x(static_cast<size_t>(n)), got(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
    float* out = reinterpret_cast<float*>(rig.allocate(n * 4));
    cuda::DeviceMemory in(n * 4);
    cuda::copy_to_device(in.data(), x.data(), n * 4, rig.stream());
    cuda::probe_scan(rig.ctx(), reinterpret_cast<const float*>(in.data()), n, out);
    rig.download(got.data(), reinterpret_cast<std::byte*>(out), n * 4);
    float sum = 0;
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got[i], sum += x[i]) << n << ": " << i;
  }
}

TEST(CudaDevice, TheLastBlockSeesWhatAllOthersWrote) {
  INGOT_NEEDS_DEVICE();
  TestDevice rig;
  cuda::DeviceMemory memory(12);
  cuda::fill_bytes(memory.data(), 0, 12, rig.stream());
  auto* words = reinterpret_cast<uint32_t*>(memory.data());
  cuda::probe_count(rig.ctx(), 37, words, words + 1, words + 2);
  uint32_t got[3] = {};
  rig.download(got, memory.data(), 12);
  EXPECT_EQ(got[0], 0u);
  EXPECT_EQ(got[2], 37u * 48);
}

TEST(CudaDevice, BlocksHandValuesToEachOther) {
  INGOT_NEEDS_DEVICE();
  TestDevice rig;
  constexpr int kBlocks = 6;
  cuda::DeviceMemory memory(kBlocks * 4);
  cuda::probe_handing(rig.ctx(), kBlocks, reinterpret_cast<float*>(memory.data()));
  float got[kBlocks] = {};
  rig.download(got, memory.data(), sizeof(got));
  for (int i = 0; i < kBlocks; ++i) EXPECT_EQ(got[i], 2.0f + 2.0f * static_cast<float>((i + 2) % kBlocks)) << i;
  rig.expect_nothing_left();
}

TEST(CudaDevice, RecordedWorkIsGivenAgain) {
  INGOT_NEEDS_DEVICE();
  cuda::use_device(0);
  const cuda::Stream stream;
  cuda::DeviceMemory a(64), b(64);
  cuda::fill_bytes(b.data(), 0, 64, stream.ref());
  stream.synchronize();
  const cuda::RecordedGraph graph(stream.ref(), [&] { cuda::copy_on_device(b.data(), a.data(), 64, stream.ref()); });
  for (const int value : {3, 5}) {
    cuda::fill_bytes(a.data(), value, 64, stream.ref());
    graph.launch(stream.ref());
    uint8_t got[64] = {};
    cuda::copy_to_host(got, b.data(), 64, stream.ref());
    stream.synchronize();
    EXPECT_EQ(got[0], value);
    EXPECT_EQ(got[63], value);
  }
}

TEST(CudaDevice, MemoryThatIsNotThereIsRefusedWithNumbers) {
  INGOT_NEEDS_DEVICE();
  cuda::use_device(0);
  try {
    const cuda::DeviceMemory memory(int64_t{1} << 50);
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("MiB are free"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ingot
