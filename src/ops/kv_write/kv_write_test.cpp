#include "ops/kv_write/kv_write.h"

#include <limits>

#include "ops/attention/cpu/attention_kernels.h"
#include "ops/ops_test_support.h"
#include "quant/formats/f8_e4m3.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;

// The cache after a run, poisoned before it.
struct Cache {
  std::vector<std::byte> k, v;
  bool operator==(const Cache&) const = default;
};

class KvWriteTest : public testing::TestWithParam<DType> {
 protected:
  // An element of a row or group of `count`, and its scale.
  static float read(const std::byte* from, int64_t at, int64_t count, int64_t scale) {
    float f32 = 0;
    uint16_t half = 0;
    switch (GetParam()) {
      case DType::kF32:
        std::memcpy(&f32, from + at * 4, 4);
        return f32;
      case DType::kFp8:
        F8_E4M3::decode(reinterpret_cast<const uint8_t*>(from + at), &f32);
        return f32;
      case DType::kQ8_0:
        std::memcpy(&half, from + count + scale * 2, 2);
        return static_cast<float>(static_cast<int8_t>(from[at])) * f16_to_f32(half);
      default:
        std::memcpy(&half, from + at * 2, 2);
        return GetParam() == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
    }
  }
  // Relative to the largest of a block.
  static double error() {
    switch (GetParam()) {
      case DType::kF32:
        return 0;
      case DType::kF16:
        return 0x1p-11;
      case DType::kFp8:
        return 0x1p-4;
      default:
        return 0x1p-8;
    }
  }
};

TEST_P(KvWriteTest, EveryRowLandsInItsSlot) {
  Random random(1);
  for (int page_rows : {16, 48, 64}) {
    const Batch batch = test::make_batch({{3, 0}, {1, 70}, {65, 2}}, page_rows, 2);
    KvLayer kv{
        .group = 1, .index = 0, .kv_heads = 3, .k_dim = 37, .v_dim = 8, .page_rows = page_rows, .dtype = GetParam()};
    Buffer k(batch.n_rows, 3 * 37, kTokenRows, 120), v(batch.n_rows, 3 * 8);
    k.fill_outliers(random);
    v.fill_outliers(random);
    const size_t slots = batch.groups[1].page_table.size() * static_cast<size_t>(page_rows) * 3;
    const auto run = [&](auto&& how) {
      Cache cache{std::vector(slots * static_cast<size_t>(kv.k_bytes()), std::byte{0xee}),
                  std::vector(slots * static_cast<size_t>(kv.v_bytes()), std::byte{0xee})};
      kv.k = cache.k.data();
      kv.v = cache.v.data();
      how(KvWrite{.k = k.tensor(), .v = v.tensor(), .kv = kv});
      return cache;
    };
    const Cache want = run([&](const KvWrite& op) { test::run_ref(op, batch); });
    test::for_each_kernels([&] {
      for (int threads : {1, 2, 3}) EXPECT_EQ(run([&](const KvWrite& op) { test::run_cpu(op, batch, threads); }), want);
    });
    // The reference against the definition: dimension 36 of a key, in the short last block of q8_0, and a value.
    kv.k = const_cast<std::byte*>(want.k.data());
    kv.v = const_cast<std::byte*>(want.v.data());
    const int64_t slot = batch.groups[1].slot[5], lane = slot % kKeyGroup;
    float largest = 0;
    for (int d = 32; d < 37; ++d) largest = std::max(largest, std::fabs(k.at(5, 2 * 37 + d)));
    const float key = read(kv.k_group(slot, 2), 36 * kKeyGroup + lane, 37 * kKeyGroup, kKeyGroup + lane);
    EXPECT_NEAR(key, k.at(5, 2 * 37 + 36), error() * largest);
    EXPECT_NEAR(read(kv.v_row(slot, 2), 0, 8, 0), v.at(5, 16), error() * 200);
  }
}

// In pairs: by every set that multiplies them as by the reference, and the reference by the definition.
TEST(KvWritePairs, EveryRowLandsInItsSlot) {
  Random random(1);
  const Batch batch = test::make_batch({{3, 0}, {1, 70}, {65, 2}}, 16, 2);
  KvLayer kv{.group = 1, .index = 0, .kv_heads = 3, .k_dim = 20, .v_dim = 8, .page_rows = 16};
  kv.dtype = DType::kBF16;
  kv.pairs = true;
  Buffer k(batch.n_rows, 3 * 20, kTokenRows, 70), v(batch.n_rows, 3 * 8);
  k.fill_outliers(random);
  v.fill_outliers(random);
  const size_t slots = batch.groups[1].page_table.size() * 16 * 3;
  const auto run = [&](auto&& how) {
    Cache cache{std::vector(slots * 40, std::byte{0xee}), std::vector(slots * 16, std::byte{0xee})};
    kv.k = cache.k.data();
    kv.v = cache.v.data();
    how(KvWrite{.k = k.tensor(), .v = v.tensor(), .kv = kv});
    return cache;
  };
  const Cache want = run([&](const KvWrite& op) { test::run_ref(op, batch); });
  test::for_each_kernels([&] {
    if (cpu::attention_kernels().bf16 == nullptr) return;
    for (int threads : {1, 2, 3}) EXPECT_EQ(run([&](const KvWrite& op) { test::run_cpu(op, batch, threads); }), want);
  });
  // Dimension 14 of a key and 5 of a value, of head 2.
  const int64_t slot = batch.groups[1].slot[5], page = slot / 16 * 16 * 3 + 2 * 16, place = slot % 16;
  uint16_t half = 0;
  std::memcpy(&half, want.k.data() + page * 40 + (3 * 64 + place * 4 + 2) * 2, 2);
  EXPECT_EQ(half, f32_to_bf16(k.at(5, 2 * 20 + 14)));
  std::memcpy(&half, want.v.data() + page * 16 + (place / 4 * 32 + 5 * 4 + place % 4) * 2, 2);
  EXPECT_EQ(half, f32_to_bf16(v.at(5, 2 * 8 + 5)));
}

// Over a head's scale: by every set as by the reference, and the reference by the definition.
TEST(KvWriteScales, CodesAreOfTheValueOverItsHeadsScale) {
  Random random(2);
  const Batch batch = test::make_batch({{3, 0}, {1, 70}, {65, 2}}, 16, 2);
  const std::vector<float> k_scales = {0.5f, 3, 0.07f}, v_scales = {11, 0.3f, 1};
  for (const DType dtype : {DType::kFp8, DType::kInt8}) {
    KvLayer kv{.group = 1, .index = 0, .kv_heads = 3, .k_dim = 37, .v_dim = 9, .page_rows = 16, .dtype = dtype};
    kv.k_scales = k_scales.data();
    kv.v_scales = v_scales.data();
    Buffer k(batch.n_rows, 3 * 37, kTokenRows, 120), v(batch.n_rows, 3 * 9);
    k.fill_outliers(random);
    v.fill_outliers(random);
    v.at(5, 2 * 9 + 4) = std::numeric_limits<float>::quiet_NaN();
    const size_t slots = batch.groups[1].page_table.size() * 16 * 3;
    const auto run = [&](auto&& how) {
      Cache cache{std::vector(slots * 37, std::byte{0xee}), std::vector(slots * 9, std::byte{0xee})};
      kv.k = cache.k.data();
      kv.v = cache.v.data();
      how(KvWrite{.k = k.tensor(), .v = v.tensor(), .kv = kv});
      return cache;
    };
    Cache want = run([&](const KvWrite& op) { test::run_ref(op, batch); });
    test::for_each_kernels([&] {
      for (int threads : {1, 3}) EXPECT_EQ(run([&](const KvWrite& op) { test::run_cpu(op, batch, threads); }), want);
    });
    if (dtype != DType::kInt8) continue;
    kv.k = want.k.data();
    kv.v = want.v.data();
    const int64_t slot = batch.groups[1].slot[5];
    for (int h = 0; h < 3; ++h) {
      const float scale = k_scales[static_cast<size_t>(h)];
      for (int d = 0; d < 37; ++d) {
        const auto code =
            static_cast<float>(static_cast<int8_t>(kv.k_group(slot, h)[d * kKeyGroup + slot % kKeyGroup]));
        EXPECT_NEAR(code * scale, std::clamp(k.at(5, h * 37 + d), -127 * scale, 127 * scale), 0.501f * scale);
      }
    }
    EXPECT_EQ(kv.v_row(slot, 2)[4], std::byte{0});
  }
}

INSTANTIATE_TEST_SUITE_P(Types, KvWriteTest,
                         testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kFp8, DType::kQ8_0),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

}  // namespace
}  // namespace ingot
