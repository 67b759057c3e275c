// Scales in the type that a file holds them in, where it is not the format's own: int4's are f16 in a row and int8's
// float32, directories may have both in bf16. What is rounded must be rounded to the scale that a reader finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "quant/format.h"
#include "quant/grid.h"

namespace ingot {

enum class ScaleType : uint8_t { kBF16, kF16, kF32 };

// The least number of the type that is not below x. REQUIRES: x is finite and not negative.
float scale_round_up(float x, ScaleType type);
// Whether the type has x, which is finite.
bool is_scale(float x, ScaleType type);

// Brings the scales of encoded rows of INT4, INT4_ASYM or INT8 to numbers that a type has, and chooses the codes anew
// where a scale changed: of INT8 the next above, so that no value is cut; of the others the neighbour whose codes lose
// less, weighted by the importances where there are any. Rows of other formats stay as they are. Keeps its memory from
// row to row. Not for several threads at once.
class StoredScales {
 public:
  // Rows of `cols` values, encoded as one.
  StoredScales(Format format, ScaleType type, int64_t cols);

  // `values` and `importance` [cols]; the latter may be null.
  void fit(const float* values, const float* importance, std::byte* row);

 private:
  void fit_row(const float* values, std::byte* row);
  void fit_groups(const float* values, const float* importance, std::byte* row);
  std::byte* head(std::byte* row, int64_t group) const;
  // Chooses all codes onto the scales of the row; the error of each group.
  void choose(const float* values, const float* importance, const std::byte* row, std::vector<double>& errors);

  const Format format_;
  const ScaleType type_;
  const int64_t cols_;
  RowGrid grid_;
  std::vector<float> below_, above_;           // of each group
  std::vector<double> below_errors_, errors_;  // likewise
};

}  // namespace ingot
