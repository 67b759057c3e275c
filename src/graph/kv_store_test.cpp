#include "graph/kv_store.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ingot {
namespace {

// Each number is one that a model's file may hold; their product is beyond 64 bits.
TEST(KvStore, SizesThatNoNumberHoldsAreRefused) {
  KvGroupSpec group;
  group.kv_heads = group.k_dim = group.v_dim = 1 << 14;
  group.n_layers = 1 << 12;
  group.dtype = DType::kF32;
  EXPECT_EQ(kv_page_bytes(group, 64), int64_t{1} << (14 + 14 + 2 + 1 + 12 + 6));
  EXPECT_THROW(kv_page_bytes(group, 1 << 30), Error);
}

}  // namespace
}  // namespace ingot
