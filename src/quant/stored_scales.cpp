#include "quant/stored_scales.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "quant/fields.h"

namespace ingot {
namespace {

constexpr uint32_t kBF16Bits = 0xffff0000u;

// x with the bits that bf16 has, towards zero.
float bf16_below(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & kBF16Bits); }

uint8_t* bytes_of(std::byte* at) { return reinterpret_cast<uint8_t*>(at); }

}  // namespace

float scale_round_up(float x, ScaleType type) {
  if (type == ScaleType::kF32) return x;
  if (type == ScaleType::kBF16) return bf16_below(std::bit_cast<float>(std::bit_cast<uint32_t>(x) + ~kBF16Bits));
  uint8_t half[2];
  store_f16(x, half);
  if (load_f16(half) < x) store_u16(static_cast<uint16_t>(load_u16(half) + 1), half);
  return load_f16(half);
}

bool is_scale(float x, ScaleType type) { return scale_round_up(std::abs(x), type) == std::abs(x); }

StoredScales::StoredScales(Format format, ScaleType type, int64_t cols)
    : format_(format), type_(type), cols_(cols), grid_(format, cols) {
  static_assert(INT4::kGroup == INT4_ASYM::kGroup);
}

void StoredScales::fit(const float* values, const float* importance, std::byte* row) {
  if (cols_ == 0 || type_ == ScaleType::kF32) return;
  if (format_ == Format::kINT8) fit_row(values, row);
  if (format_ == Format::kINT4 || format_ == Format::kINT4_ASYM) fit_groups(values, importance, row);
}

void StoredScales::fit_row(const float* values, std::byte* row) {
  const float fitted = INT8::scale(bytes_of(row)), d = scale_round_up(fitted, type_);
  if (d == fitted) return;
  store_u32(std::bit_cast<uint32_t>(d), bytes_of(row));
  grid_.read(row);
  for (int64_t k = 0; k < cols_; ++k) grid_.choose(k, values[k]);
  grid_.write(row);
}

std::byte* StoredScales::head(std::byte* row, int64_t group) const {
  const int64_t bytes = format_ == Format::kINT4 ? INT4::kHead : INT4_ASYM::kHead;
  return row + group * (bytes + INT4::kGroup / INT4::kBlock * INT4::kBytes);
}

void StoredScales::choose(const float* values, const float* importance, const std::byte* row,
                          std::vector<double>& errors) {
  std::ranges::fill(errors, 0.0);
  grid_.read(row);
  for (int64_t k = 0; k < cols_; ++k) {
    const auto e = static_cast<double>(values[k] - grid_.choose(k, values[k]));
    errors[static_cast<size_t>(k / INT4::kGroup)] += (importance ? static_cast<double>(importance[k]) : 1.0) * (e * e);
  }
}

// Heads hold what is chosen: of two neighbours in bf16 around a number of f16, f16 has both.
void StoredScales::fit_groups(const float* values, const float* importance, std::byte* row) {
  const int64_t groups = (cols_ + INT4::kGroup - 1) / INT4::kGroup;
  if (type_ == ScaleType::kF16) return;  // as it is
  const auto n = static_cast<size_t>(groups);
  below_.resize(n), above_.resize(n), below_errors_.resize(n), errors_.resize(n);
  bool changed = false;
  for (size_t g = 0; g < n; ++g) {
    const float d = load_f16(bytes_of(head(row, static_cast<int64_t>(g))));
    below_[g] = bf16_below(d);
    above_[g] = std::copysign(scale_round_up(std::abs(d), type_), d);
    // Above f16's largest number there is none.
    if (f16_to_f32(f32_to_f16(above_[g])) != above_[g]) above_[g] = below_[g];
    changed = changed || below_[g] != d;
  }
  if (!changed) return;
  const auto set = [&](const std::vector<float>& scales) {
    for (size_t g = 0; g < n; ++g) store_f16(scales[g], bytes_of(head(row, static_cast<int64_t>(g))));
  };
  set(below_);
  choose(values, importance, row, below_errors_);
  set(above_);
  choose(values, importance, row, errors_);
  for (size_t g = 0; g < n; ++g)
    if (errors_[g] <= below_errors_[g]) below_[g] = above_[g];
  set(below_);
  choose(values, importance, row, errors_);
  grid_.write(row);
}

}  // namespace ingot
