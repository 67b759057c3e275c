#include "ops/rope_kv_write/rope_kv_write.h"

#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;

struct Memory {
  std::vector<std::byte> k, v;
  bool operator==(const Memory&) const = default;
};

// The fused op, and the two that it replaces: the same bits in q and in the cache, by either version.
TEST(RopeKvWrite, IsRopeThenKvWrite) {
  Random random(1);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kFp8, DType::kInt8, DType::kQ8_0})
    for (bool interleaved : {false, true})
      for (int rotary_dim : {20, 12}) {
        const int rows = 66, heads = 4, kv_heads = 2, head_dim = 20, v_dim = 9, page_rows = 16;
        const Batch batch = test::make_batch({{30, 3}, {1, 40}, {35, 0}}, page_rows, 1);
        Buffer q(rows, heads * head_dim), k(rows, kv_heads * head_dim, kTokenRows, 50), v(rows, kv_heads * v_dim);
        Buffer table(rows, rotary_dim);
        for (Buffer* b : {&q, &k, &v}) b->fill_outliers(random);
        table.fill([&] { return static_cast<float>(2 * random.uniform() - 1); });
        KvLayer kv{.group = 0,
                   .index = 0,
                   .kv_heads = kv_heads,
                   .k_dim = head_dim,
                   .v_dim = v_dim,
                   .page_rows = page_rows,
                   .dtype = dtype};
        const size_t values = batch.groups[0].page_table.size() * static_cast<size_t>(page_rows * kv_heads);
        const auto q_saved = q.save(), k_saved = k.save();
        std::vector<float> q_got;
        const auto run = [&](auto&& how) {
          Memory m{std::vector(values * static_cast<size_t>(kv.k_bytes()), std::byte{0xee}),
                   std::vector(values * static_cast<size_t>(kv.v_bytes()), std::byte{0xee})};
          kv.k = m.k.data();
          kv.v = m.v.data();
          q.restore(q_saved);
          k.restore(k_saved);
          how();
          q_got = q.values();
          return m;
        };
        const auto fused = [&] {
          return RopeKvWrite{.q = q.tensor(),
                             .k = k.tensor(),
                             .v = v.tensor(),
                             .table = table.tensor(),
                             .kv = kv,
                             .head_dim = head_dim,
                             .interleaved = interleaved};
        };
        const Memory want = run([&] {
          test::run_cpu(Rope{.q = q.tensor(),
                             .k = k.tensor(),
                             .table = table.tensor(),
                             .head_dim = head_dim,
                             .interleaved = interleaved},
                        batch);
          test::run_cpu(KvWrite{.k = k.tensor(), .v = v.tensor(), .kv = kv}, batch);
        });
        const std::vector<float> q_want = q_got;
        for (int threads : {1, 2, 3}) {
          EXPECT_EQ(run([&] { test::run_cpu(fused(), batch, threads); }), want);
          test::expect_same_bits(q_got, q_want, "q");
          EXPECT_EQ(k.save(), k_saved) << "k was changed";
        }
        EXPECT_EQ(run([&] { test::run_ref(fused(), batch); }), want);
        test::expect_same_bits(q_got, q_want, "q of ref");
        EXPECT_EQ(k.save(), k_saved) << "k was changed";
      }
}

}  // namespace
}  // namespace ingot
