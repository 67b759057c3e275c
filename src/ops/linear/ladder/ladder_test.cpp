#include "ops/linear/ladder/ladder.h"

#include "ops/test_support.h"

namespace ingot {
namespace {

using test::Random;
using test::TestWeight;

// Every step against exact sums, for sizes with ends in every loop; steps of whole numbers of panels and the last.
TEST(Ladder, EveryStepIsTheProduct) {
  Random random(1);
  for (const int64_t rows : {1, 3, 16, 29}) {
    for (const int64_t cols : {32, 96, 544}) {
      const int64_t n = 75;
      const TestWeight w(random, Format::kQ4_0, n, cols);
      PackedStore store(0);
      const PackedWeight* packed = store.pack(w.weight(), test::pool_of(1));
      std::vector<float> x(static_cast<size_t>(rows * cols));
      for (float& value : x) value = random.outlier();
      test::for_each_kernels([&] {
        const cpu::LadderOperands operands(w.weight(), *packed, x.data(), rows);
        for (const cpu::LadderStep& step : cpu::ladder()) {
          SCOPED_TRACE(testing::Message() << step.name << ", " << rows << " rows of " << cols);
          std::vector<float> out(static_cast<size_t>(rows * n), NAN);
          for (int64_t first = 0; first < n; first += 32) {
            const int64_t count = std::min<int64_t>(32, n - first);
            std::vector<std::byte> scratch(static_cast<size_t>(cpu::ladder_scratch_bytes(operands, count)) + 64);
            const uintptr_t at = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
            step.run(operands, first, count, out.data(), reinterpret_cast<std::byte*>(at));
          }
          for (int64_t t = 0; t < rows; ++t) {
            for (int64_t i = 0; i < n; ++i) {
              const std::vector<float> row = w.row(i);
              double want = 0, size = 0, steps = 0;
              for (int64_t k = 0; k < cols; ++k) {
                const float* v = x.data() + t * cols;
                const double weight = row[static_cast<size_t>(k)];
                float largest = 0;
                for (int64_t j = k / 32 * 32; j < k / 32 * 32 + 32; ++j) largest = std::max(largest, std::fabs(v[j]));
                want += weight * static_cast<double>(v[k]);
                size += std::fabs(weight * static_cast<double>(v[k]));
                steps += 0.505 * std::fabs(weight) * static_cast<double>(largest) / 127;
              }
              const double allowed =
                  static_cast<double>(cols + 8) * test::kEps * size + (step.rounds_x ? steps * (1 + 1e-4) : 0.0);
              ASSERT_NEAR(static_cast<double>(out[static_cast<size_t>(t * n + i)]), want, allowed) << t << ", " << i;
            }
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace ingot
