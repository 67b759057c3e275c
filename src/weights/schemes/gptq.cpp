// GPTQ: qweight [K · bits / 32, N] with the columns of a word below each other, qzeros [groups, N · bits / 32], scales
// [groups, N], and g_idx [K], the group of each column. Format "gptq" stores zero points less one, "gptq_v2" as they
// are.
#include <algorithm>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "weights/schemes/int_groups.h"

namespace ingot {
namespace {

bool is_v2(const JsonObject& settings) {
  return get_string(settings, "checkpoint_format", "") == "gptq_v2" ||
         get_string(settings, "packing_format", "") == "auto_round:gptq_v2";
}

// Rows of AWQ's matrix are inputs, of GPTQ's words of inputs.
bool fits(const Module& module) {
  const std::string packing = get_string(module.settings(), "packing_format", "");
  return get_string(module.settings(), "quant_method", "") != "awq" && !packing.ends_with("awq");
}

int bits_of(const std::string& name, int64_t zero_words, int64_t rows) {
  for (const int bits : {4, 8}) {
    if (zero_words * 32 == rows * bits) return bits;
  }
  throw Error("[weights] '{}': {} words of zero points for {} outputs are neither 4 nor 8 bits", name, zero_words,
              rows);
}

Unpacked unpack(const Module& module, ThreadPool& threads) {
  const StoredWeight& weight = module.get(".qweight", "I32", 2);
  const StoredWeight& zeros = module.get(".qzeros", "I32", 2);
  IntGroups ints;
  ints.name = module.name();
  ints.rows = weight.shape[1];
  ints.bits = bits_of(ints.name, zeros.shape[1], ints.rows);
  const int64_t each = 32 / ints.bits, groups = zeros.shape[0];
  ints.cols = weight.shape[0] * each;
  ints.group = group_size(ints.name, ints.cols, groups);
  ints.groups = column_groups(module, ".g_idx", ints.cols, ints.group);
  const std::vector<float> scales = module.floats(".scales");
  if (static_cast<int64_t>(scales.size()) != groups * ints.rows)
    throw Error("[weights] '{}': {} scales for {} groups of {} outputs", ints.name, scales.size(), groups, ints.rows);

  ints.codes.resize((CheckedSize(ints.rows, "[weights] values of a tensor") * ints.cols).as_size());
  ints.scales.resize(scales.size());
  ints.zeros.resize(scales.size());
  const std::vector<uint32_t> words = words_of(weight), zero_words = words_of(zeros);
  const bool v2 = is_v2(module.settings());
  // 16 outputs at a time: a line of the cache of words.
  constexpr int64_t kTile = 16;
  const auto tile = [&](int64_t i, int) {
    const int64_t first = i * kTile, end = std::min(ints.rows, first + kTile);
    for (int64_t w = 0; w < weight.shape[0]; ++w) {
      for (int64_t n = first; n < end; ++n) {
        uint32_t word = words[static_cast<size_t>(w * ints.rows + n)];
        uint8_t* out = ints.codes.data() + n * ints.cols + w * each;
        for (int64_t j = 0; j < each; ++j, word >>= ints.bits)
          out[j] = static_cast<uint8_t>(word & ((1u << ints.bits) - 1));
      }
    }
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t n = first; n < end; ++n) {
        const auto at = static_cast<size_t>(n * groups + g);
        ints.scales[at] = scales[static_cast<size_t>(g * ints.rows + n)];
        const uint32_t* row = zero_words.data() + g * zeros.shape[1];
        // One more than the largest is none: the libraries mask it.
        const uint32_t zero = packed_value(row, n, ints.bits) + (v2 ? 0u : 1u);
        ints.zeros[at] = static_cast<int16_t>(zero & ((1u << ints.bits) - 1));
      }
    }
  };
  threads.run((ints.rows + kTile - 1) / kTile, tile);
  return unpack_groups(ints, threads);
}

}  // namespace

const Scheme scheme_gptq = {"gptq", {".qweight", ".qzeros", ".scales", ".g_idx"}, fits, unpack};

}  // namespace ingot
