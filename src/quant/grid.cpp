#include "quant/grid.h"

#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "quant/grid_formats.h"

namespace ingot {

RowGrid::RowGrid(Format format, int64_t cols, int64_t segment)
    : format_(format), cols_(cols), segment_(segment > 0 ? segment : cols) {
  visit_format(format, [this]<class F>(F) {
    using Grid = GridOf<F>;
    CHECK(segment_ % F::kBlock == 0 && cols_ % segment_ == 0, "{} columns, {} together, in format {}", cols_, segment_,
          F::kName);
    static_assert((Grid::kSub & (Grid::kSub - 1)) == 0);
    sub_ = Grid::kSub;
    while (sub_ >> shift_ > 1) ++shift_;
    if constexpr (Grid::kSub == 0) {
      code_bytes_ = F::kBytes;
    } else if constexpr (std::is_same_v<std::remove_cvref_t<decltype(Grid::kLevels)>, Codebook>) {
      book_ = &Grid::kLevels;
    } else {
      lo_ = static_cast<float>(Grid::kLevels.lo);
      hi_ = static_cast<float>(Grid::kLevels.hi);
    }
  });
  code_.resize(static_cast<size_t>(cols_ * code_bytes_));
  if (sub_ == 0) return;
  const auto subs = static_cast<size_t>((cols_ + sub_ - 1) / sub_);
  subs_.resize(subs);
  scale_.resize(subs);
  base_.resize(subs);
}

void RowGrid::read(const std::byte* row) {
  if (sub_ == 0) return;
  visit_format(format_, [&]<class F>(F) {
    using Grid = GridOf<F>;
    const auto* in = reinterpret_cast<const uint8_t*>(row);
    if constexpr (Grid::kSub == 0) {
      static_cast<void>(in);
    } else if constexpr (requires { F::kWholeRows; }) {
      static_assert(F::kBlock == Grid::kSub);  // a segment's scales lie behind those of the one before
      for (int64_t k = 0; k < cols_; k += segment_, in += F::row_bytes(segment_))
        Grid::row_scales(in, segment_, scale_.data() + k / Grid::kSub, base_.data() + k / Grid::kSub);
    } else {
      constexpr int64_t kSubs = F::kBlock / Grid::kSub;
      for (int64_t b = 0; b < cols_ / F::kBlock; ++b)
        Grid::scales(in + b * F::kBytes, scale_.data() + b * kSubs, base_.data() + b * kSubs);
    }
  });
  for (size_t i = 0; i < subs_.size(); ++i) subs_[i] = {scale_[i], base_[i], inverse_or_zero(scale_[i])};
}

float RowGrid::choose_plain(size_t column, float x) {
  uint8_t* code = code_.data() + column * static_cast<size_t>(code_bytes_);
  float value = 0;
  format_encode(format_, &x, code, 1);
  format_decode(format_, code, &value, 1);
  return value;
}

void RowGrid::write(std::byte* row) const {
  visit_format(format_, [&]<class F>(F) {
    using Grid = GridOf<F>;
    auto* out = reinterpret_cast<uint8_t*>(row);
    if constexpr (Grid::kSub == 0) {
      std::memcpy(out, code_.data(), code_.size());
    } else if constexpr (requires { F::kWholeRows; }) {
      for (int64_t k = 0; k < cols_; k += segment_, out += F::row_bytes(segment_))
        Grid::set_row_codes(code_.data() + k, segment_, out);
    } else {
      for (int64_t b = 0; b < cols_ / F::kBlock; ++b)
        Grid::set_codes(code_.data() + b * F::kBlock, out + b * F::kBytes);
    }
  });
}

}  // namespace ingot
