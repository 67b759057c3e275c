// compressed-tensors, whose formats are told apart by what a module's tensors hold:
//   pack-quantized        weight_packed I32 [N, K · bits / 32], weight_scale [N, groups], weight_zero_point I32 packed
//                         along outputs [N · bits / 32, groups], weight_g_idx [K]; codes are stored plus half their
//                         range
//   int-quantized         weight I8 [N, K], weight_scale [N, groups] or one value
//   mxfp8-quantized       weight F8 [N, K], weight_scale U8 [N, K / 32], powers of two
// float-quantized is 8-bit floats with scales beside them, which Weights reads itself.
#include <algorithm>
#include <cstring>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "weights/schemes/int_groups.h"

namespace ingot {
namespace {

bool has_dtype(const Module& module, std::string_view suffix, std::string_view dtype) {
  const StoredWeight* stored = module.find(suffix);
  return stored != nullptr && stored->dtype == dtype;
}

bool fits_packed_ints(const Module& module) { return has_dtype(module, ".weight_packed", "I32"); }
bool fits_ints(const Module& module) { return has_dtype(module, ".weight", "I8"); }
bool fits_mxfp8(const Module& module) {
  const StoredWeight* weight = module.find(".weight");
  return has_dtype(module, ".weight_scale", "U8") && weight != nullptr && weight->format == Format::kF8_E4M3;
}

// [N, groups] scales: one for each row and group, for each row, or one for all.
void set_scales(IntGroups& ints, const std::vector<float>& scales) {
  const auto n = static_cast<int64_t>(scales.size());
  if (n != 1 && (n == 0 || n % ints.rows != 0))
    throw Error("[weights] '{}': {} scales for {} outputs", ints.name, n, ints.rows);
  const int64_t groups = n == 1 ? 1 : n / ints.rows;
  ints.group = group_size(ints.name, ints.cols, groups);
  ints.scales = n == 1 ? std::vector<float>(static_cast<size_t>(ints.rows), scales[0]) : scales;
  ints.zeros.assign(ints.scales.size(), static_cast<int16_t>(1 << (ints.bits - 1)));
}

// The number of columns of the matrix, which words hide where they are not full.
int64_t shape_cols(const Module& module, int64_t rows, int64_t most) {
  if (module.find(".weight_shape") == nullptr) return most;
  const StoredWeight& stored = module.get(".weight_shape", "I64", 1);
  int64_t shape[2] = {0, 0};
  if (stored.shape[0] != 2) throw Error("[weights] '{}' has {} dimensions", stored.name, stored.shape[0]);
  std::memcpy(shape, stored.data, sizeof(shape));
  if (shape[0] != rows || shape[1] < 1 || shape[1] > most)
    throw Error("[weights] '{}' says [{}, {}] of a matrix of {} outputs and {} inputs", stored.name, shape[0], shape[1],
                rows, most);
  return shape[1];
}

int bits_of(const Module& module, int64_t words, int64_t cols) {
  for (const int bits : {4, 8}) {
    if ((cols * bits + 31) / 32 == words) return bits;
  }
  throw Error("[weights] '{}': {} words for {} columns are neither 4 nor 8 bits", module.name(), words, cols);
}

Unpacked unpack_packed_ints(const Module& module, ThreadPool& threads) {
  const StoredWeight& packed = module.get(".weight_packed", "I32", 2);
  IntGroups ints;
  ints.name = module.name();
  ints.rows = packed.shape[0];
  const int64_t words_of_row = packed.shape[1];
  ints.cols = shape_cols(module, ints.rows, words_of_row * 8);
  ints.bits = bits_of(module, words_of_row, ints.cols);
  set_scales(ints, module.floats(".weight_scale"));
  ints.groups = column_groups(module, ".weight_g_idx", ints.cols, ints.group);
  const int64_t groups = ints.group_count();
  if (module.find(".weight_zero_point") != nullptr) {
    const StoredWeight& zeros = module.get(".weight_zero_point", "I32", 2);
    const int64_t each = 32 / ints.bits;
    if (zeros.shape[0] != (ints.rows + each - 1) / each || zeros.shape[1] != groups)
      throw Error("[weights] '{}' is [{}, {}] for {} outputs and {} groups", zeros.name, zeros.shape[0], zeros.shape[1],
                  ints.rows, groups);
    const std::vector<uint32_t> words = words_of(zeros);
    const uint32_t mask = (1u << ints.bits) - 1;
    for (int64_t n = 0; n < ints.rows; ++n) {
      for (int64_t g = 0; g < groups; ++g) {
        const uint32_t word = words[static_cast<size_t>(n / each * groups + g)];
        ints.zeros[static_cast<size_t>(n * groups + g)] = static_cast<int16_t>(word >> n % each * ints.bits & mask);
      }
    }
  }
  ints.codes.resize((CheckedSize(ints.rows, "[weights] values of a tensor") * ints.cols).as_size());
  const std::vector<uint32_t> words = words_of(packed);
  threads.run(ints.rows, [&](int64_t n, int) {
    const uint32_t* row = words.data() + n * words_of_row;
    for (int64_t k = 0; k < ints.cols; ++k)
      ints.codes[static_cast<size_t>(n * ints.cols + k)] = static_cast<uint8_t>(packed_value(row, k, ints.bits));
  });
  return unpack_groups(ints, threads);
}

Unpacked unpack_ints(const Module& module, ThreadPool& threads) {
  IntGroups ints = int8_codes(module, module.get(".weight", "I8", 2));
  set_scales(ints, module.floats(".weight_scale"));
  if (const StoredWeight* zeros = module.find(".weight_zero_point")) {
    if (zeros->dtype != "I8" || zeros->values() != static_cast<int64_t>(ints.zeros.size()))
      throw Error("[weights] '{}' has {} values of {} for {} scales", zeros->name, zeros->values(), zeros->dtype,
                  ints.zeros.size());
    for (size_t i = 0; i < ints.zeros.size(); ++i)
      ints.zeros[i] = static_cast<int16_t>(ints.zeros[i] + static_cast<int8_t>(zeros->data[i]));
  }
  return unpack_groups(ints, threads);
}

Unpacked unpack_mxfp8(const Module& module, ThreadPool&) {
  const StoredWeight& weight = module.get(".weight", "", 2);
  const StoredWeight& scales = module.get(".weight_scale", "U8", 2);
  Unpacked result;
  result.format = weight.format;
  result.rows = weight.shape[0];
  result.cols = weight.shape[1];
  result.stored = weight.data;
  result.scales_down = scales.shape[0];
  result.scales_across = scales.shape[1];
  if (scales.shape[0] != result.rows || scales.shape[1] * 32 != result.cols)
    throw Error("[weights] '{}' is [{}, {}] for [{}, {}]", scales.name, scales.shape[0], scales.shape[1], result.rows,
                result.cols);
  for (int64_t i = 0; i < scales.values(); ++i) {
    const auto e = static_cast<int>(scales.data[i]);
    if (e == 255) throw Error("[weights] '{}': a scale is not a number", scales.name);
    result.scales.push_back(2 * MXFP4::half_power(e));
  }
  return result;
}

}  // namespace

const Scheme scheme_packed_ints = {
    "compressed-tensors pack-quantized",
    {".weight_packed", ".weight_scale", ".weight_zero_point", ".weight_shape", ".weight_g_idx", ".input_scale"},
    fits_packed_ints,
    unpack_packed_ints};
const Scheme scheme_ints = {"compressed-tensors int-quantized",
                            {".weight_scale", ".weight", ".weight_zero_point", ".input_scale", ".input_zero_point"},
                            fits_ints,
                            unpack_ints};
const Scheme scheme_mxfp8 = {
    "compressed-tensors mxfp8-quantized", {".weight_scale", ".weight"}, fits_mxfp8, unpack_mxfp8};

}  // namespace ingot
