#include "ladder/gemv/gemv.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

// bf16 in a buffer of floats half as wide.
Tensor bf16_rows(Buffer& buffer, int64_t rows, int64_t cols) {
  Tensor t = ladder::fixed_tensor(buffer.tensor().data, rows, cols, DType::kBF16);
  return t;
}
void fill_bf16(const Tensor& t, const std::function<float()>& value) {
  auto* to = reinterpret_cast<uint16_t*>(t.data);
  for (int64_t i = 0; i < t.rows.b * t.cols; ++i) to[i] = f32_to_bf16(value());
}

void check_gemv(int64_t rows, int64_t cols, const std::function<float()>& value, const Tolerance& tolerance) {
  SCOPED_TRACE(testing::Message() << rows << " x " << cols);
  Buffer weight(1, (rows * cols + 1) / 2, kFixedRows), x(1, (cols + 1) / 2, kFixedRows), out(1, rows, kFixedRows);
  const Gemv op{.weight = bf16_rows(weight, rows, cols), .x = bf16_rows(x, 1, cols), .out = out.tensor()};
  fill_bf16(op.weight, value);
  fill_bf16(op.x, value);
  check_steps(op, {.tolerance = tolerance});
}

TEST(GemvLadder, EveryStep) {
  Random random(1);
  for (const int64_t rows : {0, 1, 31, 100})
    for (const int64_t cols : {1, 31, 264, 1024, 4096})
      check_gemv(
          rows, cols, [&] { return random.normal(); }, relative(64, 1e-5 * static_cast<double>(cols)));
  check_gemv(
      3, 8191, [&] { return random.normal(); }, relative(64, 0.05));
}

TEST(GemvLadder, InfinitiesAndNaN) {
  Random random(2);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float odd : {kInf, -kInf, static_cast<float>(NAN)}) {
    int i = 0;
    check_gemv(
        9, 1032, [&] { return ++i % 3097 == 5 ? odd : 1.0f; }, exact());
  }
}

}  // namespace
}  // namespace ingot
