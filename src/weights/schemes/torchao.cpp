// torchao's int8 weights: _weight_qdata I8 [N, K], _weight_scale [N, 1], _weight_zero_point, which must be zero.
#include <algorithm>

#include "base/error.h"
#include "weights/schemes/int_groups.h"

namespace ingot {
namespace {

bool any(const Module&) { return true; }

Unpacked unpack(const Module& module, ThreadPool& threads) {
  const StoredWeight& weight = module.get("._weight_qdata", "I8", 2);
  if (const StoredWeight* zeros = module.find("._weight_zero_point")) {
    const bool none = zeros->dtype == "I8" && std::all_of(zeros->data, zeros->data + zeros->values(),
                                                          [](std::byte z) { return z == std::byte{0}; });
    if (!none) throw Error("[weights] '{}': zero points are not supported", zeros->name);
  }
  return unpack_groups(int8_rows(module, weight, module.floats("._weight_scale")), threads);
}

}  // namespace

const Scheme scheme_torchao_int8 = {
    "torchao int8", {"._weight_qdata", "._weight_scale", "._weight_zero_point"}, any, unpack};

}  // namespace ingot
