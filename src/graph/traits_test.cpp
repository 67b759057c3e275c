#include "graph/traits.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

struct Counter {
  int may_be = 0, with = 0;
  void may(const Tensor&) { ++may_be; }
  void may_with(const Tensor&, const Tensor&) { ++with; }
};

TEST(Traits, AnOpThatSaysNothingHasTheDefaults) {
  Op rope = Rope();
  EXPECT_FALSE(by_row(rope));
  EXPECT_EQ(regions(rope), 1);
  EXPECT_FALSE(has_matrix(rope));
  each_table(rope, [](const Weight&) { FAIL(); });
  each_kv(rope, [](KvLayer&) { FAIL(); });
  Counter counter;
  each_bf16(rope, counter);
  EXPECT_EQ(counter.may_be + counter.with, 0);
  EXPECT_EQ(cache_cost(rope, {.rows = 1, .positions = 100, .pairs = 100}).bytes, 0);
}

TEST(Traits, OfOpsThatAnswer) {
  EXPECT_TRUE(by_row(Op(Add())));
  EXPECT_TRUE(by_row(Op(Linear())));
  EXPECT_EQ(regions(Op(GatherRows())), 0);
  Linear qkv;
  qkv.n_parts = 3;
  qkv.heads.rope.head_dim = 64;
  Op heads = qkv;
  EXPECT_FALSE(by_row(heads));  // it writes into the slots of the batch's own rows
  int layers = 0, matrices = 0, tables = 0;
  each_kv(heads, [&](KvLayer&) { ++layers; });
  each_matrix(heads, [&](const Weight&, const PackedWeight* packed) { matrices += packed == nullptr; });
  each_table(Op(Embedding()), [&](const Weight&) { ++tables; });
  EXPECT_EQ(layers, 1);
  EXPECT_EQ(matrices, 3);
  EXPECT_EQ(tables, 1);
}

// One part without panels: both are read as they are published.
TEST(Traits, AGatedUnitReadsBothPartsInPanelsOrNone) {
  const PackedWeight panels{};
  Linear unit;
  unit.n_parts = 2;
  unit.glu = ActivationKind::kSilu;
  unit.parts[0].packed = &panels;
  const auto packed = [&] {
    int n = 0;
    each_matrix(Op(unit), [&](const Weight&, const PackedWeight* p) { n += p != nullptr; });
    return n;
  };
  EXPECT_EQ(packed(), 0);
  unit.parts[1].packed = &panels;
  EXPECT_EQ(packed(), 2);
}

// Half of what a row sees is behind the window.
TEST(Traits, AttentionReadsAsMuchOfTheCacheAsItsWindowShows) {
  Attention attention;
  attention.heads = 4;
  attention.kv.kv_heads = 2;
  attention.kv.k_dim = attention.kv.v_dim = 16;
  const CacheUse use{.rows = 2, .positions = 100, .pairs = 200};
  const Cost all = cache_cost(Op(attention), use);
  EXPECT_EQ(all.bytes, 100 * 2 * (16 + 16) * 4);
  EXPECT_EQ(all.flops, 2 * 200 * 4 * (16 + 16));
  attention.window = 50;
  EXPECT_EQ(cache_cost(Op(attention), use).bytes, all.bytes / 2);
}

}  // namespace
}  // namespace ingot
