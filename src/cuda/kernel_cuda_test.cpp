#include "base/random_test_support.h"
#include "cuda/device_test_support.h"
#include "cuda/probe.h"
#include "quant/formats/f8_e4m3.h"

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

// Whole numbers, whose sums are exact however few bits of them are kept; then others, whose sums are rough.
TEST(CudaDevice, ProductsOfEightBitFloats) {
  INGOT_NEEDS_DEVICE();
  const int arch = TestDevice().ctx().arch;
  if (arch != 90) GTEST_SKIP() << "compute capability " << arch;
  constexpr size_t kM = 64, kK = 128;
  Random random(8);
  for (const auto& [n, whole] :
       {std::pair{size_t{32}, true}, {size_t{64}, true}, {size_t{128}, true}, {size_t{128}, false}}) {
    TestDevice rig;
    std::vector<uint8_t> a(kM * kK), b(n * kK);
    std::vector<float> of_a(a.size()), of_b(b.size()), c(kM * n);
    const auto make = [&](std::vector<uint8_t>& codes, std::vector<float>& values) {
      for (size_t i = 0; i < codes.size(); ++i) {
        const float x = whole ? static_cast<float>(random.below(9) - 4) : random.normal();
        F8_E4M3::encode(&x, &codes[i]);
        F8_E4M3::decode(&codes[i], &values[i]);
      }
    };
    make(a, of_a);
    make(b, of_b);
    const auto bytes = static_cast<int64_t>(c.size() * 4);
    std::byte* out = rig.allocate(bytes);
    cuda::probe_group_product_fp8(rig.ctx(), static_cast<int>(n), rig.upload(a.data(), static_cast<int64_t>(a.size())),
                                  rig.upload(b.data(), static_cast<int64_t>(b.size())), reinterpret_cast<float*>(out));
    rig.download(c.data(), out, bytes);
    size_t wrong = 0;
    double error = 0, all = 0;
    for (size_t i = 0; i < c.size(); ++i) {
      double want = 0;
      for (size_t k = 0; k < kK; ++k)
        want += 2 * static_cast<double>(of_a[i / n * kK + k]) * static_cast<double>(of_b[i % n * kK + k]);
      wrong += static_cast<double>(c[i]) != want;
      error += (static_cast<double>(c[i]) - want) * (static_cast<double>(c[i]) - want);
      all += want * want;
    }
    if (whole) {
      EXPECT_EQ(wrong, 0u);
    } else {
      EXPECT_LT(error, 1e-6 * all);
      EXPECT_GT(error, 1e-10 * all);  // as rough as the device's
    }
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
