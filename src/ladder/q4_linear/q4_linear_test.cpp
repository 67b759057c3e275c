#include "ladder/q4_linear/q4_linear.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using test::Random;
using test::TestWeight;

// An output: the sum, that of its absolute terms, and half a step of each value of x as int8, times its weight.
struct Exact {
  double sum = 0, size = 0, steps = 0;
};

// All outputs [rows, rows of w], once for all sets and steps.
std::vector<Exact> exact_sums(const TestWeight& w, const std::vector<float>& x, int64_t rows) {
  const int64_t n = w.weight().rows, cols = w.weight().cols;
  std::vector<double> step(x.size());  // of the 32 values that each is in
  for (size_t k = 0; k < x.size(); k += 32) {
    float largest = 0;
    for (size_t j = k; j < k + 32; ++j) largest = std::max(largest, std::fabs(x[j]));
    for (size_t j = k; j < k + 32; ++j) step[j] = static_cast<double>(largest) / 127;
  }
  std::vector<Exact> exact(static_cast<size_t>(rows * n));
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<float> row = w.row(i);
    for (int64_t t = 0; t < rows; ++t) {
      Exact& to = exact[static_cast<size_t>(t * n + i)];
      for (int64_t k = 0; k < cols; ++k) {
        const double weight = row[static_cast<size_t>(k)];
        const auto at = static_cast<size_t>(t * cols + k);
        to.sum += weight * static_cast<double>(x[at]);
        to.size += std::fabs(weight * static_cast<double>(x[at]));
        to.steps += 0.505 * std::fabs(weight) * step[at];
      }
    }
  }
  return exact;
}

// Every step against exact sums, for sizes with ends in every loop; steps of whole numbers of panels and the last.
TEST(Q4LinearLadder, EveryStepIsTheProduct) {
  Random random(1);
  for (const int64_t rows : {1, 3, 16, 29}) {
    for (const int64_t cols : {32, 96, 544}) {
      const int64_t n = 75;
      const TestWeight w(random, Format::kQ4_0, n, cols);
      PackedStore store(0);
      const PackedWeight* packed = store.pack(w.weight(), test::pool_of(1));
      std::vector<float> x(static_cast<size_t>(rows * cols));
      for (float& value : x) value = random.outlier();
      const std::vector<Exact> exact = exact_sums(w, x, rows);
      std::vector<float> out(static_cast<size_t>(rows * n));
      test::for_each_kernels([&] {
        Q4Linear op{.x = ladder::fixed_tensor(reinterpret_cast<std::byte*>(x.data()), rows, cols),
                    .weight = w.weight(),
                    .out = ladder::fixed_tensor(reinterpret_cast<std::byte*>(out.data()), rows, n)};
        op.operands = std::make_shared<const cpu::Q4Operands>(w.weight(), *packed, x.data(), rows);
        for (const auto& step : ladder::cpu_steps<Q4Linear>()) {
          SCOPED_TRACE(testing::Message() << "step " << step.order << ", " << rows << " rows of " << cols);
          std::ranges::fill(out, NAN);
          const int64_t bytes = (ladder::scratch_bytes(op) + 63) / 64 * 64;
          const Memory scratch(2 * bytes);
          const Batch batch;
          Ctx ctx{
              .batch = batch, .pool = test::pool_of(2), .shape = {}, .scratch = scratch.data(), .scratch_bytes = bytes};
          step.run(op, ctx);
          for (size_t i = 0; i < out.size(); ++i) {
            // From step 3 on x is rounded to int8.
            const double allowed = static_cast<double>(cols + 8) * test::kEps * exact[i].size +
                                   (step.order >= 3 ? exact[i].steps * (1 + 1e-4) : 0.0);
            ASSERT_NEAR(static_cast<double>(out[i]), exact[i].sum, allowed) << "output " << i;
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace ingot
