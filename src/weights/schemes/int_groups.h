// Integers with a scale and a zero point for each group of a row's columns, as GPTQ, AWQ and compressed-tensors have
// them, made into the format of ours that holds them without loss:
//   4 bits, no zero points    int4 (groups of 128 or more), q4_0 (of 32 or 64, the scale repeated)
//   4 bits with zero points   int4_asym, q5_0 (q − z is a 5-bit number)
//   8 bits, no zero points    int8 (one group a row), q8_0
// Scales must be exact in float16 (int8: any). Where no format fits, or columns of one group lie apart (act-order), the
// values are kept as f16, rounded to 11 bits, or f32 where they are beyond its range.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weights/schemes/scheme.h"

namespace ingot {

struct IntGroups {
  std::string name;  // for errors
  int bits = 4;      // 4 or 8
  int64_t rows = 0, cols = 0;
  int64_t group = 0;            // columns of a group; the last may be shorter
  std::vector<uint8_t> codes;   // [rows, cols]
  std::vector<float> scales;    // [rows, groups]
  std::vector<int16_t> zeros;   // [rows, groups]; value = scale · (code − zero)
  std::vector<int32_t> groups;  // [cols] the group of each column; empty: column / group

  int64_t group_count() const { return (cols + group - 1) / group; }
};

// Throws Error for a scale that is zero below zero, not finite, or a group that is not there.
Unpacked unpack_groups(const IntGroups& ints, ThreadPool& threads);

// Columns of a group, of so many groups in a row: the power of two, or all, that divides it so. Throws Error.
int64_t group_size(const std::string& name, int64_t cols, int64_t groups);

// g_idx of a module: empty where columns lie in the order of their groups.
std::vector<int32_t> column_groups(const Module& module, std::string_view suffix, int64_t cols, int64_t group);

// n values of `bits` each from words of 32, the lowest first.
inline uint32_t packed_value(const uint32_t* words, int64_t i, int bits) {
  const int64_t each = 32 / bits;
  return words[i / each] >> (i % each * bits) & ((1u << bits) - 1);
}

// The codes of an I8 matrix, with its size and name; scales and zero points are the scheme's.
IntGroups int8_codes(const Module& module, const StoredWeight& weight);
// The same with one scale for each row, and no zero points. Throws Error where their number is another.
IntGroups int8_rows(const Module& module, const StoredWeight& weight, std::vector<float> scales);

// The words of an I32 tensor; copied where the file does not align them.
std::vector<uint32_t> words_of(const StoredWeight& stored);

}  // namespace ingot
