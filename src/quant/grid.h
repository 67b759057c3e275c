// The grid of an encoded row: the values that it may hold while its scales stay as they are stored. Rounding that looks
// at other columns too (gptq.h) chooses among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "quant/fit.h"
#include "quant/format.h"

namespace ingot {

// Keeps its memory from row to row. Not for several threads at once.
class RowGrid {
 public:
  // Rows of `cols` values, of which each `segment` are encoded as a row of their own (0: all are one). REQUIRES: a
  // segment is a multiple of the format's block, and cols of a segment.
  explicit RowGrid(Format format, int64_t cols, int64_t segment = 0);

  // Reads the scales of a row that is encoded.
  void read(const std::byte* row);

  // The value nearest to x that column k may hold; takes note of its code. x that is not finite gives some value.
  float choose(int64_t k, float x) {
    const auto column = static_cast<size_t>(k);
    if (sub_ == 0) return choose_plain(column, x);
    const Sub& sub = subs_[column >> shift_];
    const float level = (x - sub.base) * sub.inverse;
    if (book_ != nullptr) {
      const int code = book_->code(level);
      code_[column] = static_cast<uint8_t>(code);
      return sub.scale * static_cast<float>(book_->values[static_cast<size_t>(code)]) + sub.base;
    }
    const float rounded = round_clamp(level, lo_, hi_);
    code_[column] = static_cast<uint8_t>(static_cast<int>(rounded - lo_));
    return sub.scale * rounded + sub.base;
  }

  // Writes the chosen codes of all columns; the row's scales stay.
  void write(std::byte* row) const;

 private:
  struct Sub {
    float scale, base, inverse;
  };
  float choose_plain(size_t column, float x);

  const Format format_;
  const int64_t cols_, segment_;
  int64_t sub_ = 0;  // values that share a scale; 0: a format of single values
  int shift_ = 0;    // their number is a power of two
  float lo_ = 0, hi_ = 0;
  const Codebook* book_ = nullptr;
  std::vector<Sub> subs_;
  std::vector<float> scale_, base_;  // as the format gives them
  std::vector<uint8_t> code_;        // [cols]; of formats of single values their bytes
  int64_t code_bytes_ = 1;
};

}  // namespace ingot
