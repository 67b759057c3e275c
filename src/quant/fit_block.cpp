// Blocks of 256 values: eight sub-blocks are fitted at a time, one in each lane of a vector, so that nothing is added
// across lanes and every sum has one order on every machine.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "quant/fields.h"
#include "quant/fit.h"
#include "quant/fit_weights.h"

// Vectors are passed between inlined functions alone: no ABI is concerned.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace ingot {
namespace {

constexpr size_t kBlock = 256;
constexpr size_t kLanes = 8;
typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));

#define INGOT_INLINE [[gnu::always_inline]] inline

float as_f16(float value) { return f16_to_f32(f32_to_f16(value)); }

INGOT_INLINE Vec all(float x) { return x - Vec{}; }
INGOT_INLINE Vec least(Vec a, Vec b) { return a < b ? a : b; }
INGOT_INLINE Vec most(Vec a, Vec b) { return a > b ? a : b; }
INGOT_INLINE Vec rounded(Vec x) { return (x + 0x1.8p23f) - 0x1.8p23f; }  // as round_clamp() does
INGOT_INLINE Vec round_within(Vec x, Vec lo, Vec hi) { return rounded(least(most(x, lo), hi)); }
INGOT_INLINE Vec inverse_or_zero(Vec x) { return x == 0.0f ? Vec{} : 1.0f / x; }

// Eight sub-blocks of `size` values, value i of each in x[i].
struct Lanes {
  size_t size;
  Vec x[32], weight[32];

  void load(const float* values, const float* weights, size_t sub_size) {
    size = sub_size;
    for (size_t i = 0; i < size; ++i) {
      for (size_t l = 0; l < kLanes; ++l) {
        x[i][l] = values[l * size + i];
        weight[i][l] = weights[l * size + i];
      }
    }
  }
};

// A block as one or two groups of eight sub-blocks.
struct Groups {
  size_t count;
  std::array<Lanes, 2> lanes;

  Groups(std::span<const float> x, const float* importance, size_t sub_size) {
    CHECK(x.size() == kBlock && (sub_size == 16 || sub_size == 32), "block of {} in {}", x.size(), sub_size);
    float weights[kBlock];
    fit_weights(x.data(), importance, kBlock, weights);
    count = kBlock / sub_size / kLanes;
    for (size_t g = 0; g < count; ++g) {
      lanes[g].load(x.data() + g * kLanes * sub_size, weights + g * kLanes * sub_size, sub_size);
    }
  }
};

// A grid with all that the search asks of it: the nearest entry, its code, and the entries at its ends.
struct IntSearch {
  float lo, hi;
  explicit IntSearch(const IntGrid& grid) : lo(static_cast<float>(grid.lo)), hi(static_cast<float>(grid.hi)) {}
  INGOT_INLINE Vec nearest(Vec x) const { return round_within(x, all(lo), all(hi)); }
  INGOT_INLINE Ints code(Vec x) const { return __builtin_convertvector(nearest(x), Ints); }
  // Where the largest |x| may fall: on an end, or one further in.
  std::array<float, 4> ends() const { return {lo, lo + 1.0f, hi, hi - 1.0f}; }
  float spread() const { return 1.0f; }
};

struct CodebookSearch {
  const Codebook& book;
  std::array<float, 512> values;  // of the entry that Codebook::nearest names
  explicit CodebookSearch(const Codebook& b) : book(b) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(book.values[book.nearest[i]]);
  }
  INGOT_INLINE static Ints place(Vec x) {
    return __builtin_convertvector(round_within(x * 2.0f - 0.5f, all(-256.0f), all(255.0f)), Ints) + 256;
  }
  INGOT_INLINE Vec nearest(Vec x) const {
    const Ints at = place(x);
    Vec found;
    for (size_t l = 0; l < kLanes; ++l) found[l] = values[static_cast<size_t>(at[l])];
    return found;
  }
  INGOT_INLINE Ints code(Vec x) const {
    Ints at = place(x);
    for (size_t l = 0; l < kLanes; ++l) at[l] = book.nearest[static_cast<size_t>(at[l])];
    return at;
  }
  float value(size_t code) const { return static_cast<float>(book.values[code]); }
  std::array<float, 4> ends() const { return {value(0), value(1), value(15), value(14)}; }
  float spread() const { return value(1) - value(0); }
};

// The scale of each lane, and what it gains: Σx² less the error.
struct Scales {
  Vec scale = {}, gain = {};
  INGOT_INLINE void keep_better(const Scales& other) {
    scale = other.gain > gain ? other.scale : scale;
    gain = most(other.gain, gain);
  }
};

// The best scales for the q that are nearest to x · inverse.
template <class Search>
Scales scales_for(const Lanes& lanes, Vec inverse, const Search& search) {
  Vec xq = {}, qq = {};
  for (size_t i = 0; i < lanes.size; ++i) {
    const Vec q = search.nearest(lanes.x[i] * inverse), weighted = lanes.weight[i] * q;
    xq += lanes.x[i] * weighted;
    qq += q * weighted;
  }
  const Vec scale = xq * inverse_or_zero(qq);
  return {.scale = scale, .gain = scale * xq};
}

template <class Search>
Vec fit_scales(const Lanes& lanes, const Search& search) {
  Vec lo = {}, hi = {};
  for (size_t i = 0; i < lanes.size; ++i) {
    lo = least(lo, lanes.x[i]);
    hi = most(hi, lanes.x[i]);
  }
  const Vec inverse_largest = inverse_or_zero(hi > -lo ? hi : lo);
  Scales best;
  for (const float end : search.ends()) {
    // Around each end in steps of a quarter of the spread; exactly on it too, so that values which were
    // decoded are found again.
    for (int step = -2; step <= 2; ++step) {
      const float at = end + 0.25f * static_cast<float>(step) * search.spread();
      best.keep_better(scales_for(lanes, at * inverse_largest, search));
    }
  }
  // Two rounds of the alternation scale → values → scale; never worse, and a third gains nothing.
  for (int round = 0; round < 2; ++round) best.keep_better(scales_for(lanes, inverse_or_zero(best.scale), search));
  return best.scale;
}

template <class Search>
Vec scaled_error(const Lanes& lanes, Vec scale, const Search& search) {
  const Vec inverse = inverse_or_zero(scale);
  Vec error = {};
  for (size_t i = 0; i < lanes.size; ++i) {
    const Vec e = lanes.x[i] - scale * search.nearest(lanes.x[i] * inverse);
    error += lanes.weight[i] * (e * e);
  }
  return error;
}

// The integer scales near the wanted ones whose error is least once they are multiplied by d. The nearest for the
// largest of a block, because only so is d found again in values that were decoded.
template <class Search>
Vec stored_scales(const Lanes& lanes, float d, float largest, Vec wanted, const IntGrid& scales, const Search& search) {
  const Vec lo = all(static_cast<float>(scales.lo)), hi = all(static_cast<float>(scales.hi));
  const Vec middle = round_within(wanted * ingot::inverse_or_zero(d), lo, hi);
  Vec best = middle, best_error = scaled_error(lanes, d * middle, search);
  for (const float step : {-1.0f, 1.0f}) {
    const Vec candidate = wanted == largest ? middle : least(most(middle + step, lo), hi);
    const Vec error = scaled_error(lanes, d * candidate, search);
    best = error < best_error ? candidate : best;
    best_error = least(error, best_error);
  }
  return best;
}

template <class Search>
ScaledBlock fit_scaled_block_with(const Groups& groups, const Search& search, const IntGrid& scales) {
  Vec wanted[2];
  float largest = 0;
  for (size_t g = 0; g < groups.count; ++g) {
    wanted[g] = fit_scales(groups.lanes[g], search);
    for (size_t l = 0; l < kLanes; ++l) {
      if (std::abs(wanted[g][l]) > std::abs(largest)) largest = wanted[g][l];
    }
  }
  ScaledBlock block;
  block.d = as_f16(largest / static_cast<float>(scales.lo));
  for (size_t g = 0; g < groups.count; ++g) {
    const Lanes& lanes = groups.lanes[g];
    const Vec stored = stored_scales(lanes, block.d, largest, wanted[g], scales, search);
    const Vec inverse = inverse_or_zero(block.d * stored);
    for (size_t l = 0; l < kLanes; ++l) block.scale[g * kLanes + l] = static_cast<int8_t>(stored[l]);
    for (size_t i = 0; i < lanes.size; ++i) {
      const Ints code = search.code(lanes.x[i] * inverse);
      for (size_t l = 0; l < kLanes; ++l) block.q[(g * kLanes + l) * lanes.size + i] = static_cast<int8_t>(code[l]);
    }
  }
  return block;
}

// x ≈ scale · q + base with base ≤ 0 ≤ scale, q in 0…q_max, in each lane.
struct Lines {
  Vec scale = {}, base = {}, error = {};
  INGOT_INLINE void keep_better(const Lines& other) {
    const auto better = other.error < error;
    scale = better ? other.scale : scale;
    base = better ? other.base : base;
    error = better ? other.error : error;
  }
};

Vec affine_error(const Lanes& lanes, Vec scale, Vec base, float q_max) {
  const Vec inverse = inverse_or_zero(scale);
  Vec error = {};
  for (size_t i = 0; i < lanes.size; ++i) {
    const Vec above = lanes.x[i] - base;
    const Vec e = above - scale * round_within(above * inverse, Vec{}, all(q_max));
    error += lanes.weight[i] * (e * e);
  }
  return error;
}

// The search for the lines of eight sub-blocks. What does not depend on q is added up once, over x − lo: the less is
// cancelled when the error is computed from sums.
class LineSearch {
 public:
  LineSearch(const Lanes& lanes, float q_max) : lanes_(lanes), q_max_(q_max) {
    hi_ = lanes.x[0];
    for (size_t i = 0; i < lanes.size; ++i) {
      lo_ = least(lo_, lanes.x[i]);
      hi_ = most(hi_, lanes.x[i]);
    }
    for (size_t i = 0; i < lanes.size; ++i) {
      const Vec y = lanes.x[i] - lo_, weighted = lanes.weight[i] * y;
      w_ += lanes.weight[i];
      y_ += weighted;
      yy_ += weighted * y;
    }
  }

  Lines find() const {
    const Vec range = hi_ - lo_;
    Lines best{.scale = range * (1.0f / q_max_), .base = lo_};
    best.error = affine_error(lanes_, best.scale, best.base, q_max_);
    const Vec inverse_range = range > 0.0f ? 1.0f / range : Vec{};
    // From five steps fewer in the range to one more (clipping the largest), in tenths around all of it.
    for (int tenth = -50; tenth <= 10; tenth += tenth < -10 ? 10 : 1) {
      best.keep_better(line_for((q_max_ + 0.1f * static_cast<float>(tenth)) * inverse_range, Vec{}));
    }
    for (int round = 0; round < 2; ++round) {
      best.keep_better(line_for(inverse_or_zero(best.scale), best.base - lo_));
    }
    // All values equal and not above 0: the base alone.
    best.scale = range > 0.0f ? best.scale : Vec{};
    best.base = range > 0.0f ? best.base : lo_;
    return best;
  }

 private:
  // The least-squares lines through (q, x) for the q that `inverse` and `offset`, the base less lo, give.
  Lines line_for(Vec inverse, Vec offset) const {
    Vec q1 = {}, qq = {}, yq = {};
    for (size_t i = 0; i < lanes_.size; ++i) {
      const Vec y = lanes_.x[i] - lo_;
      const Vec q = round_within((y - offset) * inverse, Vec{}, all(q_max_)), weighted = lanes_.weight[i] * q;
      q1 += weighted;
      qq += q * weighted;
      yq += y * weighted;
    }
    const Vec determinant = w_ * qq - q1 * q1;
    const Vec factor = determinant > 0.0f ? 1.0f / determinant : Vec{};
    const Vec scale = (w_ * yq - y_ * q1) * factor, above = (qq * y_ - q1 * yq) * factor;
    // Where the base would be above 0 it is held there: the line through the origin. y − b is x then.
    const Vec b = least(above, -lo_);
    const auto held = (above > -lo_) | (determinant <= 0.0f);
    const Vec b0 = held ? -lo_ : b;
    const Vec s = held ? (yq - b0 * q1) * inverse_or_zero(qq) : scale;
    // Σ w (y − s q − b)²
    const Vec error = yy_ - 2.0f * (s * yq + b0 * y_) + s * (s * qq + 2.0f * (b0 * q1)) + b0 * b0 * w_;
    Lines lines{.scale = s, .base = lo_ + b0, .error = error};
    lines.error = s > 0.0f ? error : all(std::numeric_limits<float>::infinity());
    return lines;
  }

  const Lanes& lanes_;
  const float q_max_;
  Vec lo_ = {}, hi_ = {};
  Vec w_ = {}, y_ = {}, yy_ = {};
};

struct StoredPairs {
  Vec scale, min;
};

// The stored scales and mins around the wanted ones whose error is least once multiplied by d and dmin.
// `largest` are the scale and the base that d and dmin were made for.
StoredPairs stored_pairs(const Lanes& lanes, float d, float dmin, const Lines& wanted, float largest_scale,
                         float largest_base, float q_max, float scale_max) {
  const Vec top = all(scale_max);
  const Vec scale = round_within(wanted.scale * ingot::inverse_or_zero(d), Vec{}, top);
  const Vec min = round_within(-wanted.base * ingot::inverse_or_zero(dmin), Vec{}, top);
  StoredPairs best{scale, min};
  Vec best_error = affine_error(lanes, d * scale, -(dmin * min), q_max);
  for (const float s : {-1.0f, 0.0f, 1.0f}) {
    for (const float m : {-1.0f, 0.0f, 1.0f}) {
      if (s == 0.0f && m == 0.0f) continue;
      // The largest stay the largest: only so are d and dmin found again in values that were decoded.
      const Vec other = wanted.scale == largest_scale ? scale : least(most(scale + s, Vec{}), top);
      const Vec lower = wanted.base == largest_base ? min : least(most(min + m, Vec{}), top);
      const Vec error = affine_error(lanes, d * other, -(dmin * lower), q_max);
      const auto better = error < best_error;
      best.scale = better ? other : best.scale;
      best.min = better ? lower : best.min;
      best_error = better ? error : best_error;
    }
  }
  return best;
}

}  // namespace

ScaledBlock fit_scaled_block(std::span<const float> x, const float* importance, size_t sub_size, const IntGrid& grid,
                             const IntGrid& scales) {
  return fit_scaled_block_with(Groups(x, importance, sub_size), IntSearch(grid), scales);
}
ScaledBlock fit_scaled_block(std::span<const float> x, const float* importance, size_t sub_size, const Codebook& grid,
                             const IntGrid& scales) {
  return fit_scaled_block_with(Groups(x, importance, sub_size), CodebookSearch(grid), scales);
}

AffineBlock fit_affine_block(std::span<const float> x, const float* importance, size_t sub_size, int q_max,
                             int scale_max) {
  const Groups groups(x, importance, sub_size);
  const float top = static_cast<float>(q_max), scale_top = static_cast<float>(scale_max);
  Lines wanted[2];
  float largest_scale = 0, largest_base = 0;
  for (size_t g = 0; g < groups.count; ++g) {
    wanted[g] = LineSearch(groups.lanes[g], top).find();
    for (size_t l = 0; l < kLanes; ++l) {
      largest_scale = wanted[g].scale[l] > largest_scale ? wanted[g].scale[l] : largest_scale;
      largest_base = wanted[g].base[l] < largest_base ? wanted[g].base[l] : largest_base;
    }
  }
  AffineBlock block;
  block.d = as_f16(largest_scale / scale_top);
  block.dmin = as_f16(-largest_base / scale_top);
  for (size_t g = 0; g < groups.count; ++g) {
    const Lanes& lanes = groups.lanes[g];
    const StoredPairs stored =
        stored_pairs(lanes, block.d, block.dmin, wanted[g], largest_scale, largest_base, top, scale_top);
    const Vec inverse = inverse_or_zero(block.d * stored.scale), base = -(block.dmin * stored.min);
    for (size_t l = 0; l < kLanes; ++l) {
      block.scale[g * kLanes + l] = static_cast<uint8_t>(stored.scale[l]);
      block.min[g * kLanes + l] = static_cast<uint8_t>(stored.min[l]);
    }
    for (size_t i = 0; i < lanes.size; ++i) {
      const Vec q = round_within((lanes.x[i] - base) * inverse, Vec{}, all(top));
      for (size_t l = 0; l < kLanes; ++l) block.q[(g * kLanes + l) * lanes.size + i] = static_cast<uint8_t>(q[l]);
    }
  }
  return block;
}

}  // namespace ingot
