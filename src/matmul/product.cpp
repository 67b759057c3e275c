#include "matmul/product.h"

#include "base/check.h"

namespace ingot {

void check(const Product& product) {
  for (int i = 0; i < product.n_parts; ++i) {
    const Weight& w = *product.parts[i].weight;
    CHECK(w.cols == product.cols(), "weight {} has {} columns, x {}", w.name, w.cols, product.cols());
    CHECK(i == 0 || !product.is_glu() || w.rows == product.parts[0].weight->rows, "weight {} has {} rows", w.name,
          w.rows);
  }
  const ProductInput& in = product.input;
  CHECK(in.scale == nullptr || in.norm == nullptr, "scaled rows that are normed");
  CHECK(!in.add || (in.norm != nullptr && in.gather == nullptr), "a sum of rows that is not normed, or is gathered");
}

}  // namespace ingot
