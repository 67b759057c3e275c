#include "compress/row_readers.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tensor/memory.h"

namespace ingot {

int64_t rotated_row(int64_t r, int64_t head_rows) {
  const int64_t in_head = r % head_rows;
  return r - in_head + in_head % 2 * (head_rows / 2) + in_head / 2;
}

RowReader read_weights(std::vector<Weight> parts, int64_t head_rows) {
  RowReader reader;
  const Weight& first = parts[0];
  if (parts.size() == 1 && head_rows == 0 && first.scale == nullptr) reader.stored = first.data;
  auto shared = std::make_shared<const std::vector<Weight>>(std::move(parts));
  reader.read = [shared, head_rows](int64_t begin, int64_t rows, float* out) {
    const int64_t each = (*shared)[0].rows, cols = (*shared)[0].cols;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t r = head_rows > 0 ? rotated_row(begin + i, head_rows) : begin + i;
      (*shared)[static_cast<size_t>(r / each)].decode_row(r % each, out + i * cols);
    }
  };
  reader.done = [shared] {
    for (const Weight& weight : *shared) {
      if (weight.mapped) give_back_pages(weight.data, weight.bytes());
    }
  };
  return reader;
}

RowReader read_floats(std::vector<float> values, int64_t cols) {
  auto shared = std::make_shared<const std::vector<float>>(std::move(values));
  RowReader reader;
  reader.stored = reinterpret_cast<const std::byte*>(shared->data());
  reader.read = [shared, cols](int64_t begin, int64_t rows, float* out) {
    std::copy_n(shared->begin() + begin * cols, rows * cols, out);
  };
  reader.done = [] {};
  return reader;
}

}  // namespace ingot
