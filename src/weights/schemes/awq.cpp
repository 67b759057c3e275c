// AWQ ("gemm"): qweight [K, N / 8] and qzeros [groups, N / 8], eight outputs to a word in the order 0 2 4 6 1 3 5 7,
// and scales [groups, N]. Always 4 bits.
#include <algorithm>
#include <array>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "weights/schemes/int_groups.h"

namespace ingot {
namespace {

constexpr int64_t kEach = 8;
// The nibble of a word that holds output i.
constexpr std::array<int, kEach> kNibble = {0, 4, 1, 5, 2, 6, 3, 7};

bool fits(const Module&) { return true; }

uint8_t nibble(const std::vector<uint32_t>& words, int64_t row, int64_t row_words, int64_t n) {
  const uint32_t word = words[static_cast<size_t>(row * row_words + n / kEach)];
  return static_cast<uint8_t>(word >> 4 * kNibble[static_cast<size_t>(n % kEach)] & 15);
}

Unpacked unpack(const Module& module, ThreadPool& threads) {
  const std::string version = get_string(module.settings(), "version", "gemm");
  if (version != "gemm" && version != "GEMM")
    throw Error("[weights] '{}': AWQ in the layout '{}' is not supported", module.name(), version);
  const StoredWeight& weight = module.get(".qweight", "I32", 2);
  const StoredWeight& zeros = module.get(".qzeros", "I32", 2);
  const std::vector<float> scales = module.floats(".scales");
  IntGroups ints;
  ints.name = module.name();
  ints.cols = weight.shape[0];
  ints.rows = weight.shape[1] * kEach;
  const int64_t groups = zeros.shape[0];
  ints.group = group_size(ints.name, ints.cols, groups);
  if (zeros.shape[1] != weight.shape[1] || static_cast<int64_t>(scales.size()) != groups * ints.rows)
    throw Error("[weights] '{}': {} words of zero points and {} scales for {} groups of {} outputs", ints.name,
                zeros.shape[1], scales.size(), groups, ints.rows);
  ints.codes.resize((CheckedSize(ints.rows, "[weights] values of a tensor") * ints.cols).as_size());
  ints.scales.resize(scales.size());
  ints.zeros.resize(scales.size());
  const std::vector<uint32_t> words = words_of(weight), zero_words = words_of(zeros);
  // The outputs of 16 words, a line of the cache, at a time.
  constexpr int64_t kTile = 16 * kEach;
  const auto tile = [&](int64_t i, int) {
    const int64_t first = i * kTile, end = std::min(ints.rows, first + kTile);
    for (int64_t k = 0; k < ints.cols; ++k) {
      for (int64_t n = first; n < end; ++n)
        ints.codes[static_cast<size_t>(n * ints.cols + k)] = nibble(words, k, weight.shape[1], n);
    }
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t n = first; n < end; ++n) {
        const auto at = static_cast<size_t>(n * groups + g);
        ints.scales[at] = scales[static_cast<size_t>(g * ints.rows + n)];
        ints.zeros[at] = nibble(zero_words, g, weight.shape[1], n);
      }
    }
  };
  threads.run((ints.rows + kTile - 1) / kTile, tile);
  return unpack_groups(ints, threads);
}

}  // namespace

const Scheme scheme_awq = {"awq", {".qweight", ".qzeros", ".scales"}, fits, unpack};

}  // namespace ingot
