#include "ladder/q4_k_gemv/q4_k_gemv.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

void check_gemv(int64_t rows, int64_t cols, const std::function<float()>& value, double absolute) {
  SCOPED_TRACE(testing::Message() << rows << " x " << cols);
  Buffer x(1, cols, kFixedRows, 0, DType::kBF16), out(1, rows, kFixedRows);
  const int64_t row_bytes = format_row_bytes(Format::kQ4_K, cols);
  std::vector<uint8_t> codes(static_cast<size_t>(rows * row_bytes));
  std::vector<float> values(static_cast<size_t>(cols));
  for (int64_t n = 0; n < rows; ++n) {
    for (float& v : values) v = value();
    format_encode(Format::kQ4_K, values.data(), codes.data() + n * row_bytes, cols);
  }
  for (int64_t k = 0; k < cols; ++k) x.tensor().row<uint16_t>(0)[k] = f32_to_bf16(value());
  Q4KGemv op{.weight = {}, .x = x.tensor(), .out = out.tensor()};
  op.weight.name = "test";
  op.weight.format = Format::kQ4_K;
  op.weight.rows = rows;
  op.weight.cols = cols;
  op.weight.row_bytes = row_bytes;
  op.weight.data = reinterpret_cast<const std::byte*>(codes.data());
  check_steps(op, {.tolerance = relative(64, absolute)});
  out.expect_intact();
}

TEST(Q4KGemvLadder, EveryStep) {
  Random random(1);
  for (const int64_t rows : {0, 1, 31, 100})
    for (const int64_t cols : {256, 768, 4096})
      check_gemv(
          rows, cols, [&] { return random.normal(); }, 2e-5 * static_cast<double>(cols));
  check_gemv(
      19, 14336, [&] { return random.normal(); }, 0.1);
}

// Values that are alike, or nothing at all: scales are zero then.
TEST(Q4KGemvLadder, FlatBlocks) {
  for (const float value : {0.0f, 1.0f, -3.0f})
    check_gemv(
        9, 1024, [&] { return value; }, 0.02);
}

}  // namespace
}  // namespace ingot
