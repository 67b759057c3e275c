#include "ladder/route/route.h"

namespace ingot::ref {

void run(const Route& op, Ctx&) {
  const auto* experts = reinterpret_cast<const uint32_t*>(op.experts.data);
  auto* place = reinterpret_cast<uint32_t*>(op.place.data);
  auto* first = reinterpret_cast<uint32_t*>(op.first.data);
  uint32_t at = 0;
  for (int e = 0; e < op.count; ++e) {
    first[e] = at;
    for (int64_t i = 0; i < op.experts.cols; ++i)
      if (experts[i] == static_cast<uint32_t>(e)) place[at++] = static_cast<uint32_t>(i);
  }
  first[op.count] = at;
}

}  // namespace ingot::ref
