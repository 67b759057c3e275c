// Nine to 32 rows on the device against the reference: slabs that lie in one block, slab after slab in a block, columns
// cut into slices whose blocks wait for each other; everything that is fused in; each twice in a row, because what is
// handed over and scratch are left for the next.
#include "matmul/cuda/wide/wide_plan.h"
#include "ops/linear/linear_cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr int64_t kLong = 2112;  // columns, 33 steps
constexpr int kBlocks = 12;

// Every tile is in one slab; a block's memory suffices.
void check_plan(int64_t tiles, int tile_rows, int chunks, int multiprocessors) {
  SCOPED_TRACE(testing::Message() << tiles << " tiles of " << tile_rows << ", " << chunks << " chunks");
  const cuda::WidePlan plan = cuda::wide_plan(tiles, tile_rows, chunks, multiprocessors);
  EXPECT_GE(int64_t{plan.slabs} * plan.tiles, tiles);
  EXPECT_LT(int64_t{plan.slabs - 1} * plan.tiles, tiles);
  EXPECT_LE(plan.tiles * tile_rows, 256);
  EXPECT_GE(plan.steps * 2, chunks);
  EXPECT_GE(plan.stages, 2);
  EXPECT_LE(plan.shared_bytes(), 227 << 10);
  EXPECT_TRUE(plan.slices == 1 || plan.slabs * plan.slices <= multiprocessors);
  EXPECT_LE(plan.slices, plan.steps);
}

TEST(LinearWidePlan, EveryShape) {
  for (const int tile_rows : {16, 32, 48}) {
    for (const int64_t tiles : {1, 7, 128, 896, 4008}) {
      for (const int chunks : {1, 2, 3, 128, 448}) check_plan(tiles, tile_rows, chunks, tiles == 7 ? 4 : 132);
    }
  }
}

Linear with_input(Linear op, const TestWeight& norm) {
  op.input.weight = norm.weight();
  op.input.eps = 1e-5f;
  return op;
}

void check_rows(Random& random, int64_t n, int64_t cols, int rows, int more_rows, int multiprocessors) {
  SCOPED_TRACE(testing::Message() << rows << " rows, N " << n << ", K " << cols);
  const TestWeight w(random, Format::kBF16, n, cols), bias(random, Format::kF32, 1, n);
  Buffer x(rows, cols, kTokenRows, cols + 3), residual(rows, n), out(rows, n, kTokenRows, n + 5), want(rows, n);
  x.fill_outliers(random);
  residual.fill_outliers(random);
  const Batch batch = rows_batch(rows);
  Linear op = plain(x, w, want);
  op.residual = residual.tensor();
  op.parts[0].bias = bias.weight();
  run_ref(op, batch);
  op.parts[0].out = out.tensor();
  DeviceRig(batch, {.more_rows = more_rows, .multiprocessors = multiprocessors}).run(op, 2);
  out.expect_intact();
  const ProductError error(x, w, true);
  const auto tolerance = [&](int64_t t, int64_t i, double want_value) {
    return error.at(t, i) + 8 * kEps * (std::fabs(want_value) + std::fabs(residual.at(t, i)) + 8);
  };
  expect_near(out.values(), want.values(), n, tolerance, "out");
}

TEST(CudaLinearWide, WholeSlabsAndSlices) {
  INGOT_NEEDS_DEVICE();
  ASSERT_GT(cuda::wide_plan(4, 16, kLong / 32, kBlocks).slices, 1);
  Random random(21);
  for (const int rows : {9, 17, 25, 32}) {
    check_rows(random, 70, 96, rows, 0, 0);
    check_rows(random, 64, kLong, rows, 0, kBlocks);
  }
  check_rows(random, 50, kLong - 40, 20, 2, kBlocks);
  check_rows(random, 600, 72, 12, 0, 1);  // slab after slab
}

void check_gated(Random& random, int rows, int64_t n, int64_t cols, int multiprocessors) {
  SCOPED_TRACE(testing::Message() << rows << " rows, N " << n << ", K " << cols);
  const TestWeight gate(random, Format::kBF16, n, cols, 0.1f), up(random, Format::kBF16, n, cols, 0.1f);
  Buffer x(rows, cols), x16(rows, cols, kTokenRows, 0, DType::kBF16), want(rows, n), a(rows, n), b(rows, n),
      unused(rows, n), out(rows, n, kTokenRows, n + 3, DType::kBF16);
  x.fill([&] { return random.normal(); });
  round_to_bf16(x, x16);
  const Batch batch = rows_batch(rows);
  Linear op = plain(x, gate, want);
  op.n_parts = 2;
  op.parts[1].weight = up.weight();
  op.parts[1].out = unused.tensor();
  op.glu = ActivationKind::kSilu;
  run_ref(op, batch);
  run_ref(plain(x, gate, a), batch);
  run_ref(plain(x, up, b), batch);
  const ProductError gate_error(x, gate, false), up_error(x, up, false);
  op.x = x16.tensor();
  op.parts[0].out = out.tensor();
  DeviceRig(batch, {.multiprocessors = multiprocessors}).run(op, 2);
  out.expect_intact();
  // The slope of the activation is at most 1.13, and |f(x)| ≤ |x|.
  const auto tolerance = [&](int64_t t, int64_t i, double want_value) {
    const double g = std::fabs(a.at(t, i)), u = std::fabs(b.at(t, i));
    const double eg = gate_error.at(t, i) + 8 * kEps * g, eu = up_error.at(t, i) + 8 * kEps * u;
    return 1.13 * eg * (u + eu) + g * eu + (16 * kEps + 1.01 * kBf16) * std::fabs(want_value);
  };
  expect_near(bf16_values(out), want.values(), n, tolerance, "out");
}

TEST(CudaLinearWide, GatedUnits) {
  INGOT_NEEDS_DEVICE();
  Random random(22);
  for (const int rows : {9, 19, 32}) check_gated(random, rows, 41, 64, 0);
  check_gated(random, 18, 24, kLong, kBlocks);
}

// The sums of a cut matrix are the same for every launch.
TEST(CudaLinearWide, SameBits) {
  INGOT_NEEDS_DEVICE();
  Random random(23);
  const TestWeight w(random, Format::kBF16, 64, kLong), norm(random, Format::kF32, 1, kLong);
  Buffer x(24, kLong), first(24, 64), second(24, 64);
  x.fill_outliers(random);
  const Batch batch = rows_batch(24);
  DeviceRig rig(batch, {.multiprocessors = kBlocks});
  rig.run(with_input(plain(x, w, first), norm));
  rig.run(with_input(plain(x, w, second), norm), 3);
  expect_same_bits(second.values(), first.values(), "the second run");
  DeviceRig alone(batch, {.overlap = false, .multiprocessors = kBlocks});
  alone.run(with_input(plain(x, w, second), norm), 2);
  expect_same_bits(second.values(), first.values(), "kernels that wait for the one in front");
}

}  // namespace
}  // namespace ingot
