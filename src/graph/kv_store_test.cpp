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

// DeepSeek's cache: a token has the latent in the cache's type and a rotary part of 16 bits or more, and nothing else.
TEST(KvStore, ALatentCacheHoldsTheLatentAndItsRotaryPart) {
  struct Type {
    DType dtype;
    double latent, rotary;  // bytes of a value
  };
  for (const Type& type : {Type{DType::kF32, 4, 4}, Type{DType::kF16, 2, 2}, Type{DType::kBF16, 2, 2},
                           Type{DType::kFp8, 1, 2}, Type{DType::kQ8_0, 34.0 / 32, 2}}) {
    const KvGroupSpec group{
        .kv_heads = 1, .k_dim = 64, .v_dim = 512, .dtype = type.dtype, .n_layers = 27, .latent = true};
    const double least = 64.0 * 27 * (512 * type.latent + 64 * type.rotary);
    EXPECT_GE(static_cast<double>(kv_page_bytes(group, 64)), least) << dtype_name(type.dtype);
    EXPECT_LE(static_cast<double>(kv_page_bytes(group, 64)), 1.05 * least) << dtype_name(type.dtype);
  }
}

}  // namespace
}  // namespace ingot
