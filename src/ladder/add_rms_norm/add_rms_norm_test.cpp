#include "ladder/add_rms_norm/add_rms_norm.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

void fill(const Tensor& t, const std::function<float()>& value) {
  for (int64_t r = 0; r < t.rows.b; ++r)
    for (int64_t c = 0; c < t.cols; ++c) t.row<uint16_t>(r)[c] = f32_to_bf16(value());
}

// bf16 by the definition, rounded once at the end of each output.
void reference(const AddRmsNorm& op) {
  const auto* weight = reinterpret_cast<const float*>(op.weight.data);
  for (int64_t r = 0; r < op.out.rows.b; ++r) {
    const auto sum = [&](int64_t c) {
      return static_cast<double>(bf16_to_f32(op.a.row<uint16_t>(r)[c]) + bf16_to_f32(op.b.row<uint16_t>(r)[c]));
    };
    double squares = 0;
    for (int64_t c = 0; c < op.out.cols; ++c) squares += sum(c) * sum(c);
    const double root = std::sqrt(squares / static_cast<double>(op.out.cols) + op.eps);
    for (int64_t c = 0; c < op.out.cols; ++c) {
      op.sum.row<uint16_t>(r)[c] = f32_to_bf16(static_cast<float>(sum(c)));
      op.out.row<uint16_t>(r)[c] = f32_to_bf16(static_cast<float>(sum(c) / root * weight[c]));
    }
  }
}

void check(int64_t rows, int64_t cols, const std::function<float()>& value) {
  SCOPED_TRACE(testing::Message() << rows << " x " << cols);
  Random random(static_cast<uint64_t>(cols));
  const auto buffer = [&] { return std::make_unique<Buffer>(rows, cols, kFixedRows, 0, DType::kBF16); };
  const auto a = buffer(), b = buffer(), sum = buffer(), out = buffer();
  fill(a->tensor(), value);
  fill(b->tensor(), value);
  const std::vector<float> weight = normal_values(random, cols);
  const AddRmsNorm op{.a = a->tensor(),
                      .b = b->tensor(),
                      .weight = f32_weight(weight),
                      .sum = sum->tensor(),
                      .out = out->tensor(),
                      .eps = 1e-5f};
  // A rounding of the sum and one of the result, 2^-8 each at most.
  check_steps(op, {.tolerance = relative(3 * 0x1p-8 / kEps, 1e-30), .reference = [&op] { reference(op); }});
  sum->expect_intact();
  out->expect_intact();
}

TEST(AddRmsNormLadder, EveryStepOfEveryWidth) {
  Random random(1);
  for (const int64_t cols : {1, 2, 31, 33, 64, 520, 1024, 4096, 8191})
    check(cols < 100 ? 5 : 2, cols, [&] { return random.normal(); });
  check(0, 7, [] { return 0.0f; });
  check(2, 64, [] { return 0.0f; });
  check(3, 64, [&] { return random.below(64) == 0 ? NAN : random.normal(); });
}

}  // namespace
}  // namespace ingot
