// Rope and its table on the device against the reference.
#include "ops/cuda/cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;

TEST(CudaRope, MatchesTheReference) {
  INGOT_NEEDS_DEVICE();
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const bool interleaved : {false, true})
      for (const int rotary : {2, 64, 80}) {
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ", " << rotary << (interleaved ? " interleaved" : ""));
        const Batch batch = make_batch({{5, 9}, {1, 30}});
        const int64_t cols = 3 * 80;
        Buffer q(batch.n_rows, cols, kTokenRows, cols + 5), k(batch.n_rows, 80), table(batch.n_rows, rotary);
        Random random(7);
        q.fill_outliers(random);
        k.fill_outliers(random);
        table.fill([&] { return static_cast<float>(random.uniform() * 2 - 1); });
        Buffer device_q(batch.n_rows, cols, kTokenRows, cols + 5, dtype);
        const auto element = [&](int64_t r, int64_t c) { return device_q.tensor().row<uint16_t>(r) + c; };
        for (int64_t r = 0; r < q.rows(); ++r)
          for (int64_t c = 0; c < cols; ++c) {
            if (dtype == DType::kF32) {
              device_q.at(r, c) = q.at(r, c);
            } else {
              *element(r, c) = f32_to_bf16(q.at(r, c));
              q.at(r, c) = bf16_to_f32(*element(r, c));
            }
          }
        Buffer device_k(batch.n_rows, 80);
        device_k.restore(k.save());
        DeviceRig rig(batch, {.more_rows = 3});
        rig.run(Rope{device_q.tensor(), device_k.tensor(), table.tensor(), 80, interleaved});
        run_ref(Rope{q.tensor(), k.tensor(), table.tensor(), 80, interleaved}, batch);
        device_q.expect_intact();
        std::vector<float> got;
        for (int64_t r = 0; r < q.rows(); ++r)
          for (int64_t c = 0; c < cols; ++c)
            got.push_back(dtype == DType::kF32 ? device_q.at(r, c) : bf16_to_f32(*element(r, c)));
        // Products of up to 200 are rounded; a bf16 result once more.
        const double of_type = dtype == DType::kF32 ? 4 * kEps : 0x1p-8;
        const Tolerance tolerance = [&](int64_t, int64_t, double want) {
          return of_type * std::fabs(want) + 400 * kEps;
        };
        expect_near(got, q.values(), cols, tolerance, "q");
        expect_near(device_k.values(), k.values(), 80, relative(4, 400 * kEps), "k");
      }
}

TEST(CudaRopeTable, MatchesTheReference) {
  INGOT_NEEDS_DEVICE();
  const Batch batch = make_batch({{5, 9}, {1, 130000}, {3, 0}}, 1024);
  Buffer want(batch.n_rows, 64, kTokenRows, 70), got(batch.n_rows, 64, kTokenRows, 70);
  RopeTable op;
  for (int i = 0; i < 32; ++i) op.inv_freq.push_back(std::pow(10000.0f, -static_cast<float>(i) / 32));
  op.magnitude = 1.25f;
  op.out = want.tensor();
  run_ref(op, batch);
  op.out = got.tensor();
  DeviceRig rig(batch, {.more_rows = 2, .page_rows = 1024});
  rig.run(op);
  got.expect_intact();
  // An angle is one product of f32, so equal; cos and sin are within 2 units in the last place, then one product.
  expect_near(got.values(), want.values(), 64, relative(4, 4 * kEps), "table");
}

}  // namespace
}  // namespace ingot
