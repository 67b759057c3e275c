#include "ladder/scan/scan.h"

namespace ingot::ref {

void run(const Scan& op, Ctx&) {
  const auto* x = reinterpret_cast<const float*>(op.x.data);
  auto* out = reinterpret_cast<float*>(op.out.data);
  double sum = 0;
  for (int64_t i = 0; i < op.x.cols; ++i) out[i] = static_cast<float>(sum += static_cast<double>(x[i]));
}

}  // namespace ingot::ref
