#include "weights/schemes/int_groups.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "quant/fields.h"

namespace ingot {
namespace {

constexpr int64_t kBlock = 32;

bool exact_in_f16(float value) {
  uint8_t half[2];
  store_f16(value, half);
  return load_f16(half) == value;
}

// Whether every group is a whole number of `columns`, so that a group of ours lies within one.
bool whole(const IntGroups& ints, int64_t columns) { return ints.group % columns == 0 || ints.group >= ints.cols; }

Format format_for(const IntGroups& ints) {
  const bool plain = std::ranges::all_of(ints.zeros, [&](int16_t z) { return z == 1 << (ints.bits - 1); });
  const bool halves = std::ranges::all_of(ints.scales, exact_in_f16);
  if (ints.groups.empty() && ints.cols % kBlock == 0) {
    if (ints.bits == 8 && plain && ints.group >= ints.cols) return Format::kINT8;
    if (halves && ints.bits == 8 && plain && whole(ints, kBlock)) return Format::kQ8_0;
    if (halves && ints.bits == 4 && whole(ints, INT4::kGroup)) return plain ? Format::kINT4 : Format::kINT4_ASYM;
    if (halves && ints.bits == 4 && whole(ints, kBlock)) return plain ? Format::kQ4_0 : Format::kQ5_0;
  }
  const float largest = ints.scales.empty() ? 0 : *std::ranges::max_element(ints.scales);
  const float least = ints.scales.empty() ? 0 : *std::ranges::min_element(ints.scales);
  // Below 2^-14 an f16 has fewer bits than 11, from 65,520 on it is infinite.
  return least >= 0x1p-14f && largest * static_cast<float>(1 << ints.bits) < 65504.0f ? Format::kF16 : Format::kF32;
}

// One row in the format's own bytes.
class RowWriter {
 public:
  RowWriter(const IntGroups& ints, int64_t row)
      : ints_(ints),
        codes_(ints.codes.data() + row * ints.cols),
        scales_(ints.scales.data() + row * ints.group_count()),
        zeros_(ints.zeros.data() + row * ints.group_count()) {}

  void write(Format format, uint8_t* out) const {
    switch (format) {
      case Format::kINT8:
        return int8(out);
      case Format::kQ8_0:
        return q8_0(out);
      case Format::kINT4:
      case Format::kINT4_ASYM:
        return int4(out, format == Format::kINT4_ASYM);
      case Format::kQ4_0:
        return q4_0(out);
      case Format::kQ5_0:
        return q5_0(out);
      default:
        return floats(out, format == Format::kF16);
    }
  }

 private:
  int64_t group_of(int64_t k) const {
    return ints_.groups.empty() ? k / ints_.group : ints_.groups[static_cast<size_t>(k)];
  }

  static void nibbles(const uint8_t* q, uint8_t* out) {
    for (int i = 0; i < 16; ++i) out[i] = static_cast<uint8_t>((q[i] & 15) | q[i + 16] << 4);
  }

  void int8(uint8_t* out) const {
    store_u32(std::bit_cast<uint32_t>(scales_[0]), out);
    for (int64_t k = 0; k < ints_.cols; ++k) out[INT8::kHead + k] = codes_[k] ^ 0x80;
  }
  void q8_0(uint8_t* out) const {
    for (int64_t k = 0; k < ints_.cols; k += kBlock, out += Q8_0::kBytes) {
      store_f16(scales_[group_of(k)], out);
      for (int64_t i = 0; i < kBlock; ++i) out[2 + i] = codes_[k + i] ^ 0x80;
    }
  }
  void int4(uint8_t* out, bool zeros) const {
    for (int64_t k = 0; k < ints_.cols; k += kBlock, out += INT4::kBytes) {
      if (k % INT4::kGroup == 0) {
        store_f16(scales_[group_of(k)], out);
        if (zeros) out[2] = static_cast<uint8_t>(zeros_[group_of(k)]);
        out += zeros ? INT4_ASYM::kHead : INT4::kHead;
      }
      nibbles(codes_ + k, out);
    }
  }
  void q4_0(uint8_t* out) const {
    for (int64_t k = 0; k < ints_.cols; k += kBlock, out += Q4_0::kBytes) {
      store_f16(scales_[group_of(k)], out);
      nibbles(codes_ + k, out + 2);
    }
  }
  // q − z + 16: the fifth bits of all values, then the low four of each.
  void q5_0(uint8_t* out) const {
    for (int64_t k = 0; k < ints_.cols; k += kBlock, out += Q5_0::kBytes) {
      store_f16(scales_[group_of(k)], out);
      uint8_t q[kBlock];
      uint32_t high = 0;
      for (int64_t i = 0; i < kBlock; ++i) {
        q[i] = static_cast<uint8_t>(codes_[k + i] - zeros_[group_of(k)] + 16);
        high |= static_cast<uint32_t>(q[i] >> 4) << i;
      }
      store_u32(high, out + 2);
      nibbles(q, out + 6);
    }
  }
  void floats(uint8_t* out, bool half) const {
    for (int64_t k = 0; k < ints_.cols; ++k) {
      const int64_t g = group_of(k);
      const float value = scales_[g] * static_cast<float>(codes_[k] - zeros_[g]);
      if (half) {
        store_f16(value, out + 2 * k);
      } else {
        store_u32(std::bit_cast<uint32_t>(value), out + 4 * k);
      }
    }
  }

  const IntGroups& ints_;
  const uint8_t* codes_;
  const float* scales_;
  const int16_t* zeros_;
};

void check(const IntGroups& ints) {
  for (const float scale : ints.scales) {
    // A negative one is a number like others: codes reach from -8 to 7, and its sign says which end is the longer one.
    if (!std::isfinite(scale)) throw Error("[weights] '{}': a scale is {}", ints.name, scale);
  }
}

}  // namespace

Unpacked unpack_groups(const IntGroups& ints, ThreadPool& threads) {
  check(ints);
  Unpacked result;
  result.format = format_for(ints);
  result.rows = ints.rows;
  result.cols = ints.cols;
  const int64_t row_bytes = format_row_bytes(result.format, ints.cols);
  result.data = Memory((CheckedSize(ints.rows, "[weights] bytes of a tensor") * row_bytes).as_int64());
  const auto row = [&](int64_t n, int) {
    RowWriter(ints, n).write(result.format, reinterpret_cast<uint8_t*>(result.data.data()) + n * row_bytes);
  };
  threads.run(ints.rows, row);
  return result;
}

int64_t group_size(const std::string& name, int64_t cols, int64_t groups) {
  if (groups == 1) return cols;
  for (int64_t size = 1; size < cols; size *= 2) {
    if ((cols + size - 1) / size == groups) return size;
  }
  throw Error("[weights] '{}': {} columns are not {} groups", name, cols, groups);
}

std::vector<int32_t> column_groups(const Module& module, std::string_view suffix, int64_t cols, int64_t group) {
  if (module.find(suffix) == nullptr) return {};
  const StoredWeight& stored = module.get(suffix, "I32", 1);
  if (stored.shape[0] != cols) throw Error("[weights] '{}' has {} columns, not {}", stored.name, stored.shape[0], cols);
  const std::vector<uint32_t> words = words_of(stored);
  const int64_t groups = (cols + group - 1) / group;
  std::vector<int32_t> result(words.begin(), words.end());
  bool in_order = true;
  for (int64_t k = 0; k < cols; ++k) {
    const int32_t g = result[static_cast<size_t>(k)];
    if (g < 0 || g >= groups) throw Error("[weights] '{}': column {} is in group {} of {}", stored.name, k, g, groups);
    in_order &= g == k / group;
  }
  if (in_order) result.clear();
  return result;
}

IntGroups int8_codes(const Module& module, const StoredWeight& weight) {
  IntGroups ints;
  ints.name = module.name();
  ints.bits = 8;
  ints.rows = weight.shape[0];
  ints.cols = weight.shape[1];
  ints.codes.resize(static_cast<size_t>(weight.values()));
  for (size_t i = 0; i < ints.codes.size(); ++i) ints.codes[i] = static_cast<uint8_t>(weight.data[i]) ^ 0x80;
  return ints;
}

IntGroups int8_rows(const Module& module, const StoredWeight& weight, std::vector<float> scales) {
  IntGroups ints = int8_codes(module, weight);
  ints.group = ints.cols;
  ints.scales = std::move(scales);
  if (static_cast<int64_t>(ints.scales.size()) != ints.rows)
    throw Error("[weights] '{}': {} scales for {} outputs", ints.name, ints.scales.size(), ints.rows);
  ints.zeros.assign(ints.scales.size(), 128);
  return ints;
}

std::vector<uint32_t> words_of(const StoredWeight& stored) {
  std::vector<uint32_t> words(static_cast<size_t>(stored.values()));
  std::memcpy(words.data(), stored.data, words.size() * 4);
  return words;
}

}  // namespace ingot
