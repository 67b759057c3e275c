#include "ops/kv_write/kv_write.h"

#include "ops/test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;

// The cache after a run, poisoned before it.
struct Cache {
  std::vector<std::byte> k, v;
  bool operator==(const Cache&) const = default;
};

class KvWriteTest : public testing::TestWithParam<DType> {};

TEST_P(KvWriteTest, EveryRowLandsInItsSlot) {
  Random random(1);
  for (int page_rows : {1, 5, 64}) {
    const Batch batch = test::make_batch({{3, 0}, {1, 70}, {65, 2}}, page_rows, 2);
    KvLayer kv{
        .group = 1, .index = 0, .kv_heads = 3, .k_dim = 17, .v_dim = 8, .page_rows = page_rows, .dtype = GetParam()};
    Buffer k(batch.n_rows, 3 * 17, kTokenRows, 60), v(batch.n_rows, 3 * 8);
    k.fill_outliers(random);
    v.fill_outliers(random);
    const size_t slots = batch.groups[1].page_table.size() * static_cast<size_t>(page_rows) * 3;
    const size_t size = static_cast<size_t>(dtype_bytes(kv.dtype));
    const auto run = [&](auto&& how) {
      Cache cache{std::vector(slots * 17 * size, std::byte{0xee}), std::vector(slots * 8 * size, std::byte{0xee})};
      kv.k = cache.k.data();
      kv.v = cache.v.data();
      how(KvWrite{.k = k.tensor(), .v = v.tensor(), .kv = kv});
      return cache;
    };
    const Cache want = run([&](const KvWrite& op) { test::run_ref(op, batch); });
    for (int threads : {1, 2, 3}) EXPECT_EQ(run([&](const KvWrite& op) { test::run_cpu(op, batch, threads); }), want);
    // The reference against the definition, for one element.
    const int64_t at = kv.k_at(batch.groups[1].slot[5], 2) + 16;
    float got = 0;
    if (kv.dtype == DType::kF32) {
      std::memcpy(&got, want.k.data() + at * 4, 4);
      EXPECT_EQ(got, k.at(5, 2 * 17 + 16));
    } else {
      uint16_t half = 0;
      std::memcpy(&half, want.k.data() + at * 2, 2);
      got = kv.dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
      EXPECT_NEAR(got, k.at(5, 2 * 17 + 16), 0x1p-8 * std::fabs(got));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, KvWriteTest, testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

}  // namespace
}  // namespace ingot
