// 4-bit floats (E2M1), two to a byte, the even column in the low half, as compressed-tensors and ModelOpt store them:
//   mxfp4   weight_packed U8 [N, K / 2], weight_scale U8 [N, K / 32], powers of two: our MXFP4 in another order
//   nvfp4   scales of 8-bit floats for 16 columns and one of float32 for the tensor, which divides
//           (weight_global_scale) or multiplies (ModelOpt's weight_scale_2): our NVFP4 in another order, the tensor's
//           scale beside it. Where columns are no multiple of 64, bf16: code times scale has six bits, so it is exact.
#include <cmath>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "weights/schemes/int_groups.h"

namespace ingot {
namespace {

bool is_bytes(const Module& module, std::string_view suffix) {
  const StoredWeight* stored = module.find(suffix);
  return stored != nullptr && stored->dtype == "U8";
}

bool fits_packed(const Module& module) { return is_bytes(module, ".weight_packed"); }
bool fits_modelopt(const Module& module) { return is_bytes(module, ".weight"); }

struct Floats4 {
  const StoredWeight& codes;
  const StoredWeight& scales;
  int64_t rows, cols;

  int code(int64_t n, int64_t k) const {
    return static_cast<int>(codes.data[n * cols / 2 + k / 2]) >> (k % 2 * 4) & 15;
  }
};

Floats4 open(const Module& module, std::string_view codes, std::string_view scale_dtype, int64_t group) {
  const StoredWeight& packed = module.get(codes, "U8", 2);
  Floats4 f{packed, module.get(".weight_scale", scale_dtype, 2), packed.shape[0], 2 * packed.shape[1]};
  if (f.scales.shape[0] != f.rows || f.scales.shape[1] * group != f.cols)
    throw Error("[weights] '{}' is [{}, {}] for [{}, {}]", f.scales.name, f.scales.shape[0], f.scales.shape[1], f.rows,
                f.cols);
  return f;
}

Unpacked room(Format format, const Floats4& f) {
  Unpacked result;
  result.format = format;
  result.rows = f.rows;
  result.cols = f.cols;
  const int64_t row_bytes = format_row_bytes(format, f.cols);
  result.data = Memory((CheckedSize(f.rows, "[weights] bytes of a tensor") * row_bytes).as_int64());
  return result;
}

Unpacked unpack_mxfp4(const Module& module, ThreadPool& threads) {
  const Floats4 f = open(module, ".weight_packed", "U8", MXFP4::kBlock);
  Unpacked result = room(Format::kMXFP4, f);
  auto* out = reinterpret_cast<uint8_t*>(result.data.data());
  threads.run(f.rows, [&](int64_t n, int) {
    for (int64_t b = 0; b < f.cols / MXFP4::kBlock; ++b) {
      const int64_t block = n * f.scales.shape[1] + b, first = b * MXFP4::kBlock;
      uint8_t* to = out + block * MXFP4::kBytes;
      to[0] = static_cast<uint8_t>(f.scales.data[block]);
      for (int64_t i = 0; i < 16; ++i)
        to[1 + i] = static_cast<uint8_t>(f.code(n, first + i) | f.code(n, first + i + 16) << 4);
    }
  });
  return result;
}

constexpr int64_t kGroup = NVFP4::kGroup;

void check_nvfp4(const Module& module, const Floats4& f, float tensor_scale) {
  if (!std::isfinite(tensor_scale) || tensor_scale <= 0)
    throw Error("[weights] '{}': the scale of the tensor is {}", module.name(), tensor_scale);
  for (int64_t i = 0; i < f.scales.values(); ++i) {
    const auto code = static_cast<int>(f.scales.data[i]);
    if ((code & 0x7f) == 0x7f) throw Error("[weights] '{}': a scale is not a number", f.scales.name);
    if (code >= 0x80) throw Error("[weights] '{}': a scale is below zero", f.scales.name);
  }
}

void put_nvfp4(const Floats4& f, int64_t n, uint8_t* out) {
  const std::byte* scales = f.scales.data + n * f.cols / kGroup;
  for (int64_t k = 0; k < f.cols; k += kGroup) {
    uint8_t* block = out + k / NVFP4::kBlock * NVFP4::kBytes;
    const int64_t g = k / kGroup % NVFP4::kGroups;
    block[g] = static_cast<uint8_t>(scales[k / kGroup]);
    uint8_t* q = block + NVFP4::kGroups + 8 * g;
    for (int64_t i = 0; i < 8; ++i) q[i] = static_cast<uint8_t>(f.code(n, k + i) | f.code(n, k + 8 + i) << 4);
  }
}

void put_bf16(const Floats4& f, int64_t n, uint8_t* out) {
  for (int64_t k = 0; k < f.cols; ++k) {
    const float half = NVFP4::half_scale(static_cast<uint8_t>(f.scales.data[(n * f.cols + k) / kGroup]));
    const float value = half * static_cast<float>(MXFP4::kTable[static_cast<size_t>(f.code(n, k))]);
    store_u16(f32_to_bf16(value), out + 2 * k);
  }
}

Unpacked unpack_nvfp4(const Module& module, std::string_view codes, float tensor_scale, ThreadPool& threads) {
  const Floats4 f = open(module, codes, "F8_E4M3", kGroup);
  check_nvfp4(module, f, tensor_scale);
  const Format format = f.cols % NVFP4::kBlock == 0 ? Format::kNVFP4 : Format::kBF16;
  Unpacked result = room(format, f);
  result.scales = {tensor_scale};
  result.scales_down = result.scales_across = 1;
  auto* out = reinterpret_cast<uint8_t*>(result.data.data());
  const int64_t row_bytes = format_row_bytes(format, f.cols);
  threads.run(f.rows, [&](int64_t n, int) {
    if (format == Format::kNVFP4) {
      put_nvfp4(f, n, out + n * row_bytes);
    } else {
      put_bf16(f, n, out + n * row_bytes);
    }
  });
  return result;
}

float one_value(const Module& module, std::string_view suffix) {
  const std::vector<float> values = module.floats(suffix);
  if (values.size() != 1) throw Error("[weights] '{}{}' has {} values", module.name(), suffix, values.size());
  return values[0];
}

Unpacked unpack_packed(const Module& module, ThreadPool& threads) {
  const StoredWeight* scales = module.find(".weight_scale");
  if (scales != nullptr && scales->dtype == "U8") return unpack_mxfp4(module, threads);
  return unpack_nvfp4(module, ".weight_packed", 1.0f / one_value(module, ".weight_global_scale"), threads);
}

Unpacked unpack_modelopt(const Module& module, ThreadPool& threads) {
  return unpack_nvfp4(module, ".weight", one_value(module, ".weight_scale_2"), threads);
}

}  // namespace

const Scheme scheme_packed_floats = {"compressed-tensors mxfp4- and nvfp4-pack-quantized",
                                     {".weight_packed", ".weight_scale", ".weight_global_scale", ".input_global_scale"},
                                     fits_packed,
                                     unpack_packed};
const Scheme scheme_modelopt_nvfp4 = {
    "modelopt nvfp4", {".weight_scale_2", ".weight", ".weight_scale", ".input_scale"}, fits_modelopt, unpack_modelopt};

}  // namespace ingot
