#include "ladder/reduce/reduce.h"

namespace ingot::ref {

void run(const Reduce& op, Ctx&) {
  const auto* x = reinterpret_cast<const float*>(op.x.data);
  double sum = 0;
  for (int64_t i = 0; i < op.x.cols; ++i) sum += static_cast<double>(x[i]);
  *reinterpret_cast<float*>(op.out.data) = static_cast<float>(sum);
}

}  // namespace ingot::ref
