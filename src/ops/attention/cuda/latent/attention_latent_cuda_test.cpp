// Attention over a latent cache on the device against the reference.
#include "ops/attention/cuda/attention_cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;
using namespace test::attention;

void expect_matches(const Case& c, const std::vector<Seq>& seqs, const Bucket& bucket = {}) {
  SCOPED_TRACE(testing::Message() << dtype_name(c.dtype) << ", " << c.heads << " heads, " << c.v_dim << " + "
                                  << c.k_dim);
  Step step(c, seqs);
  expect_near(step.run_device(bucket), step.run_ref(), step.cols(), step.tolerance(), "device");
}

constexpr DType kTypes[] = {DType::kBF16, DType::kF16, DType::kFp8, DType::kQ8_0};

// Sizes without kernels of their own.
TEST(CudaLatentAttention, AnySize) {
  INGOT_NEEDS_DEVICE();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kFp8, DType::kQ8_0}) {
    const Case c{.heads = 4, .kv_heads = 1, .k_dim = 8, .v_dim = 24, .dtype = dtype, .latent = true};
    expect_matches(c, {{1, 1, 40}, {2, 9, 30}, {3, 1, 0}}, {.more_rows = 2, .more_seqs = 1});
  }
}

// Every type: rows of decode that share their keys by splits, a prompt of several tiles beside them.
TEST(CudaLatentAttention, DecodeAndPrompts) {
  INGOT_NEEDS_DEVICE();
  for (const DType dtype : kTypes) {
    const Case c{.heads = 16, .kv_heads = 1, .k_dim = 64, .v_dim = 512, .dtype = dtype, .latent = true};
    expect_matches(c, {{1, 1, 70}, {2, 1, 3}}, {.more_rows = 1, .more_seqs = 1});
    expect_matches(c, {{1, 1, 66}, {2, 5, 60}});
  }
}

TEST(CudaLatentAttention, OtherSizesHeadsAndDevices) {
  INGOT_NEEDS_DEVICE();
  for (const int rope : {64, 32}) {
    const Case c{.heads = 6, .kv_heads = 1, .k_dim = rope, .v_dim = 256, .page_rows = 64, .latent = true};
    expect_matches(c, {{1, 3, 130}});
    expect_matches(c, {{1, 1, 20}, {2, 12, 0}}, {.arch = 80});
  }
  const Case many{.heads = 40,
                  .kv_heads = 1,
                  .k_dim = 64,
                  .v_dim = 256,
                  .q_dtype = DType::kBF16,
                  .out_dtype = DType::kBF16,
                  .latent = true};
  expect_matches(many, {{1, 1, 150}, {2, 1, 64}});
  expect_matches(many, {{1, 2, 62}}, {.arch = 86});
}

// Clusters that share a split, several of them for the longest seq, and blocks of one that have no keys.
TEST(CudaLatentAttention, Clusters) {
  INGOT_NEEDS_DEVICE();
  const Case c{.heads = 5, .kv_heads = 1, .k_dim = 32, .v_dim = 256, .page_rows = 64, .latent = true};
  const Bucket device{.multiprocessors = 16};
  expect_matches(c, {{1, 1, 1100}}, device);
  expect_matches(c, {{1, 1, 130}, {2, 1, 1030}}, device);
}

// In batch-invariant mode a row's bits are the same alone and among others.
TEST(CudaLatentAttention, InvariantAloneAndTogether) {
  INGOT_NEEDS_DEVICE();
  const Case c{.heads = 8, .kv_heads = 1, .k_dim = 32, .v_dim = 256, .smooth = true, .latent = true};
  Step together(c, {{1, 1, 70}, {2, 6, 0}}), alone(c, {{1, 1, 70}}, 3);
  const std::vector<float> want = alone.run_device({.invariant = true});
  std::vector<float> got = together.run_device({.invariant = true});
  got.resize(want.size());
  expect_same_bits(got, want, "alone and together");
}

}  // namespace
}  // namespace ingot
