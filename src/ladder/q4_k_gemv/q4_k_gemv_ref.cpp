#include <algorithm>
#include <cstring>

#include "ladder/q4_k_gemv/q4_k_gemv.h"
#include "tensor/dtype.h"

namespace ingot {

void ref::run(const Q4KGemv& op, Ctx&) {
  std::vector<float> row(static_cast<size_t>(op.weight.cols));
  const auto* x = reinterpret_cast<const uint16_t*>(op.x.data);
  for (int64_t n = 0; n < op.weight.rows; ++n) {
    op.weight.decode_row(n, row.data());
    double sum = 0;
    for (size_t k = 0; k < row.size(); ++k) sum += static_cast<double>(row[k]) * static_cast<double>(bf16_to_f32(x[k]));
    reinterpret_cast<float*>(op.out.data)[n] = static_cast<float>(sum);
  }
}

Weight ladder::random_q4_k(Operands& operands, int64_t rows, int64_t cols) {
  constexpr int64_t kDifferent = 64;
  const int64_t row_bytes = format_row_bytes(Format::kQ4_K, cols), different = std::min(rows, kDifferent);
  std::vector<int32_t> words(static_cast<size_t>(rows * row_bytes / 4));
  auto* bytes = reinterpret_cast<std::byte*>(words.data());
  std::vector<float> values(static_cast<size_t>(cols));
  uint64_t counter = 1;
  for (int64_t n = 0; n < different; ++n) {
    for (float& value : values) {
      counter = counter * 6364136223846793005u + 1442695040888963407u;
      value = static_cast<float>(counter >> 40) * 0x1p-23f - 1;
    }
    format_encode(Format::kQ4_K, values.data(), bytes + n * row_bytes, cols);
  }
  for (int64_t n = different; n < rows; ++n)
    std::memcpy(bytes + n * row_bytes, bytes + n % different * row_bytes, static_cast<size_t>(row_bytes));
  Weight weight;
  weight.name = "random";
  weight.format = Format::kQ4_K;
  weight.rows = rows;
  weight.cols = cols;
  weight.row_bytes = row_bytes;
  weight.data = operands.ints(1, static_cast<int64_t>(words.size()), words).data;
  return weight;
}

}  // namespace ingot
