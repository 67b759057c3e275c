#include "graph/graph.h"

#include "base/check.h"

namespace ingot {

Tensor Graph::add_value(const Rows& rows, int64_t cols, DType dtype) {
  Tensor t;
  t.dtype = dtype;
  t.rows = rows;
  t.cols = cols;
  t.stride = cols;
  t.value = static_cast<int32_t>(values.size());
  values.push_back({.rows = rows, .cols = cols, .dtype = dtype});
  return t;
}

std::string_view op_name(const Op& op) {
  static constexpr std::string_view kNames[] = {
#define X(TYPE, NAME) #NAME,
      INGOT_OPS(X)
#undef X
  };
  return kNames[op.index()];
}

Tensor columns(const Tensor& t, int64_t first, int64_t count) {
  CHECK(first >= 0 && count > 0 && first + count <= t.cols, "columns {} + {} of {}", first, count, t.cols);
  Tensor view = t;
  view.cols = count;
  view.offset += first * dtype_bytes(t.dtype);
  return view;
}

bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.value == b.value && a.offset == b.offset && a.cols == b.cols && a.rows == b.rows;
}

}  // namespace ingot
