// bitsandbytes.
//   4 bits  weight U8 with two codes a byte, the first in the high half, of a table of 16 values (nf4, fp4), times the
//           largest magnitude of each block of consecutive values; those in float32, or "nested": codes of a table of
//           256, times a scale of theirs, plus an offset. A JSON text beside them says sizes and shape. Kept as f16: no
//           format of ours has such a table.
//   int8    weight I8 [N, K], SCB [N]: the row's largest magnitude, of which a code is a 127th
#include <utility>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "weights/schemes/int_groups.h"

namespace ingot {
namespace {

constexpr std::string_view kStates[] = {".weight.quant_state.bitsandbytes__nf4",
                                        ".weight.quant_state.bitsandbytes__fp4"};

bool any(const Module&) { return true; }

JsonObject read_state(const Module& module) {
  for (const std::string_view suffix : kStates) {
    if (module.find(suffix) == nullptr) continue;
    const StoredWeight& stored = module.get(suffix, "U8", 1);
    const std::string_view text(reinterpret_cast<const char*>(stored.data), static_cast<size_t>(stored.shape[0]));
    return as_object(parse_json(text, stored.name), stored.name);
  }
  throw Error("[weights] '{}' has no state of its 4-bit codes", module.name());
}

// The largest magnitude of each block.
std::vector<float> block_scales(const Module& module, const JsonObject& state) {
  const StoredWeight* stored = module.find(".weight.absmax");
  if (stored->dtype != "U8") return module.floats(".weight.absmax");
  const std::vector<float> table = module.floats(".weight.nested_quant_map");
  const std::vector<float> scales = module.floats(".weight.nested_absmax");
  const int64_t block = get_int(state, "nested_blocksize", 256, 1, 1 << 20);
  const auto offset = static_cast<float>(get_float(state, "nested_offset", 0));
  const int64_t n = stored->values();
  if (table.size() != 256 || static_cast<int64_t>(scales.size()) != (n + block - 1) / block)
    throw Error("[weights] '{}': {} values of {} scales in a table of {}", stored->name, n, scales.size(),
                table.size());
  std::vector<float> result;
  for (int64_t i = 0; i < n; ++i)
    result.push_back(table[static_cast<size_t>(stored->data[i])] * scales[static_cast<size_t>(i / block)] + offset);
  return result;
}

Unpacked unpack_4bit(const Module& module, ThreadPool& threads) {
  const JsonObject state = read_state(module);
  const JsonArray* shape = find_array(state, "shape");
  if (shape == nullptr || shape->size() != 2) throw Error("[weights] '{}': its state has no shape", module.name());
  Unpacked result;
  result.format = Format::kF16;
  result.rows = as_int((*shape)[0], "shape", 1, 1 << 30);
  result.cols = as_int((*shape)[1], "shape", 1, 1 << 30);
  const int64_t n = (CheckedSize(result.rows, "[weights] values of a tensor") * result.cols).as_int64();
  const int64_t block = get_int(state, "blocksize", 64, 1, 1 << 20);
  const StoredWeight& codes = module.get(".weight", "U8", 2);
  const std::vector<float> table = module.floats(".weight.quant_map"), scales = block_scales(module, state);
  if (table.size() != 16 || codes.values() != (n + 1) / 2 ||
      static_cast<int64_t>(scales.size()) != (n + block - 1) / block)
    throw Error("[weights] '{}': {} bytes of codes and {} scales for [{}, {}]", module.name(), codes.values(),
                scales.size(), result.rows, result.cols);
  result.data = Memory((CheckedSize(n, "[weights] bytes of a tensor") * 2).as_int64());
  auto* out = reinterpret_cast<uint8_t*>(result.data.data());
  threads.run(result.rows, [&](int64_t r, int) {
    for (int64_t i = r * result.cols; i < (r + 1) * result.cols; ++i) {
      const int code = static_cast<int>(codes.data[i / 2]) >> (i % 2 == 0 ? 4 : 0) & 15;
      store_f16(table[static_cast<size_t>(code)] * scales[static_cast<size_t>(i / block)], out + 2 * i);
    }
  });
  return result;
}

Unpacked unpack_int8(const Module& module, ThreadPool& threads) {
  std::vector<float> scales = module.floats(".SCB");
  for (float& scale : scales) scale /= 127.0f;
  return unpack_groups(int8_rows(module, module.get(".weight", "I8", 2), std::move(scales)), threads);
}

}  // namespace

const Scheme scheme_bitsandbytes_4bit = {"bitsandbytes 4-bit",
                                         {".weight.absmax", ".weight", ".weight.quant_map", ".weight.nested_absmax",
                                          ".weight.nested_quant_map", kStates[0], kStates[1]},
                                         any,
                                         unpack_4bit};
const Scheme scheme_bitsandbytes_int8 = {"bitsandbytes int8", {".SCB", ".weight", ".weight_format"}, any, unpack_int8};

}  // namespace ingot
