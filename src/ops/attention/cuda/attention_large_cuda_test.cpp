// Attention over caches of more than 2^31 elements: the step's pages lie on both sides of that one.
#include "ops/attention/cuda/attention_cuda_test_support.h"
#include "ops/cuda/large_test_support.h"

namespace ingot {
namespace {

using namespace test;
using namespace test::attention;

struct Way {
  const char* name;
  Case of;
  std::vector<Seq> seqs;
  Bucket bucket = {};
};

// Every kernel once.
std::vector<Way> ways() {
  Case bf16{.heads = 8, .kv_heads = 2, .k_dim = 128, .v_dim = 128};
  Case odd = bf16, f32 = bf16, fp8 = bf16, q8_0 = bf16, any = bf16;
  odd.k_dim = odd.v_dim = 96;
  f32.dtype = DType::kF32;
  fp8.dtype = DType::kFp8;
  q8_0.dtype = any.dtype = DType::kQ8_0;
  any.k_dim = any.v_dim = 80;
  const std::vector<Seq> decode{{1, 1, 90}, {2, 1, 33}}, drafts{{1, 7, 60}}, prompt{{1, 1, 40}, {2, 70, 20}};
  return {{"split, by the copy engine", bf16, decode},
          {"split, by the copy engine, wide", bf16, drafts},
          {"split", odd, decode},
          {"split, wide", odd, drafts},
          {"split, batch-invariant", bf16, prompt, {.invariant = true}},
          {"rows", odd, prompt},
          {"rows of an older device", bf16, prompt, {.arch = 80}},
          {"by warpgroups", bf16, prompt},
          {"any, of f32", f32, drafts},
          {"split, of fp8", fp8, decode},
          {"split, of q8_0", q8_0, decode},
          {"rows of an older device, of q8_0", q8_0, prompt, {.arch = 80}},
          {"by warpgroups, of fp8", fp8, prompt},
          {"by warpgroups, of q8_0", q8_0, prompt},
          {"any, of q8_0", any, decode}};
}

// first(way, pages): the first page that the step uses of a cache that ends with its last.
template <class F>
void check(const F& first) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    Step step(way.of, way.seqs);
    Bucket bucket = way.bucket;
    bucket.first_page = first(way, static_cast<int>(step.pages()));
    expect_near(step.run_device(bucket), step.run_ref(), step.cols(), step.tolerance(), "device");
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CudaLargeAttention, FarPagesInSmall) {
  INGOT_NEEDS_DEVICE();
  check([](const Way&, int) { return 3; });
}
TEST(CudaLargeAttention, FarPages) {
  INGOT_NEEDS_ROOM(18 * kGib);
  check([](const Way& way, int pages) {
    return static_cast<int>(kTooMany / (way.of.page_rows * way.of.kv_heads * way.of.k_dim)) - pages / 2;
  });
}

}  // namespace
}  // namespace ingot
