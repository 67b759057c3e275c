// torchao's int8 weights: _weight_qdata I8 [N, K], _weight_scale [N, 1], _weight_zero_point, which must be zero.
#include <algorithm>

#include "base/error.h"
#include "weights/schemes/int_groups.h"

namespace ingot {
namespace {

bool any(const Module&) { return true; }

Unpacked unpack(const Module& module, ThreadPool& threads) {
  const StoredWeight& weight = module.get("._weight_qdata", "I8", 2);
  IntGroups ints;
  ints.name = module.name();
  ints.bits = 8;
  ints.rows = weight.shape[0];
  ints.cols = ints.group = weight.shape[1];
  ints.scales = module.floats("._weight_scale");
  if (static_cast<int64_t>(ints.scales.size()) != ints.rows)
    throw Error("[weights] '{}': {} scales for {} outputs", ints.name, ints.scales.size(), ints.rows);
  if (const StoredWeight* zeros = module.find("._weight_zero_point")) {
    const bool none = zeros->dtype == "I8" && std::all_of(zeros->data, zeros->data + zeros->values(),
                                                          [](std::byte z) { return z == std::byte{0}; });
    if (!none) throw Error("[weights] '{}': zero points are not supported", zeros->name);
  }
  ints.zeros.assign(ints.scales.size(), 128);
  ints.codes.resize(static_cast<size_t>(weight.values()));
  for (size_t i = 0; i < ints.codes.size(); ++i) ints.codes[i] = static_cast<uint8_t>(weight.data[i]) ^ 0x80;
  return unpack_groups(ints, threads);
}

}  // namespace

const Scheme scheme_torchao_int8 = {
    "torchao int8", {"._weight_qdata", "._weight_scale", "._weight_zero_point"}, any, unpack};

}  // namespace ingot
