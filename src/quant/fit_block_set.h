// Blocks of 256 values: eight sub-blocks are fitted at a time, one in each lane of a vector, so that nothing is added
// across lanes and every sum has one order on every machine. For the instruction set that the including source is
// compiled for: nothing here has a name beyond it.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/fields.h"
#include "quant/fit_block.h"
#include "quant/fit_lanes.h"
#include "quant/fit_weights.h"

namespace ingot {
namespace {

constexpr size_t kBlock = kFitBlock;
float as_f16(float value) { return f16_to_f32(f32_to_f16(value)); }

// A block as one or two groups of eight sub-blocks.
struct Groups {
  size_t count;
  std::span<const float> values;
  std::array<Lanes, 2> lanes;

  Groups(std::span<const float> x, const float* importance, size_t sub_size) : values(x) {
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
  INGOT_INLINE Vec nearest(Vec x) const { return round_within(x, lo, hi); }
  INGOT_INLINE int code(float x) const { return static_cast<int>(round_clamp(x, lo, hi)); }
  std::array<float, 2> ends() const { return {lo, hi}; }
  float spread() const { return 1.0f; }
};

struct CodebookSearch {
  const Codebook& book;
  explicit CodebookSearch(const Codebook& b) : book(b) {}
  INGOT_INLINE Vec nearest(Vec x) const {
    float at[kLanes];
    (round_within(x * 2.0f - 0.5f, -256.0f, 255.0f) + 256.0f).store(at);
    for (float& v : at) v = book.nearest_value[static_cast<size_t>(v)];
    return Vec::load(at);
  }
  INGOT_INLINE int code(float x) const { return book.code(x); }
  std::array<float, 2> ends() const { return {book.nearest_value[0], book.nearest_value[511]}; }
  float spread() const { return static_cast<float>(book.values[1] - book.values[0]); }
};

// The scale of each lane, what it gains (Σx² less the error), and what a deviation from it costs: this times its
// square.
struct Scales {
  Vec scale = 0.0f, gain = 0.0f, cost = 0.0f;
  INGOT_INLINE void keep_better(const Scales& other) {
    const Mask better = gain < other.gain;
    scale = select(better, other.scale, scale);
    cost = select(better, other.cost, cost);
    gain = most(other.gain, gain);
  }
};

// The best scales for the q that are nearest to x · inverse.
template <class Search>
Scales scales_for(const Lanes& lanes, Vec inverse, const Search& search) {
  Vec xq = 0.0f, qq = 0.0f;
  for (size_t i = 0; i < lanes.size; ++i) {
    const Vec q = search.nearest(lanes.x[i] * inverse), weighted = lanes.weight[i] * q;
    xq += lanes.x[i] * weighted;
    qq += q * weighted;
  }
  const Vec scale = xq * inverse_or_zero(qq);
  return {.scale = scale, .gain = scale * xq, .cost = qq};
}

template <class Search>
Scales fit_scales(const Lanes& lanes, const Search& search) {
  Vec lo = 0.0f, hi = 0.0f;
  for (size_t i = 0; i < lanes.size; ++i) {
    lo = least(lo, lanes.x[i]);
    hi = most(hi, lanes.x[i]);
  }
  const Vec inverse_largest = inverse_or_zero(select(-lo < hi, hi, lo));
  Scales best;
  for (const float end : search.ends()) {
    // Around each end, exactly on it too, so that values which were decoded are found again. Steps of 0.1 to 0.9 gain
    // nothing over these.
    for (int step = -2; step <= 2; ++step) {
      const float at = end + 0.4f * static_cast<float>(step) * search.spread();
      best.keep_better(scales_for(lanes, at * inverse_largest, search));
    }
  }
  // Two rounds of the alternation scale → values → scale; never worse, and a third gains nothing.
  for (int round = 0; round < 2; ++round) best.keep_better(scales_for(lanes, inverse_or_zero(best.scale), search));
  return best;
}

template <class Search>
Vec scaled_error(const Lanes& lanes, Vec scale, const Search& search) {
  const Vec inverse = inverse_or_zero(scale);
  Vec error = 0.0f;
  for (size_t i = 0; i < lanes.size; ++i) {
    const Vec e = lanes.x[i] - scale * search.nearest(lanes.x[i] * inverse);
    error += lanes.weight[i] * (e * e);
  }
  return error;
}

// d of least Σ cost · (wanted − d · s)², s the nearest integers from lo to hi, rounded to f16. `end`: lo or hi, where
// the wanted of largest magnitude comes to lie, or a little beside it. The starts lie in the lanes: a sum across lanes
// for each would take three times as long.
float fit_d(std::span<const Vec> wanted, std::span<const Vec> cost, float lo, float hi, float end) {
  float all[2][2 * kLanes];
  float largest = 0;
  for (size_t g = 0; g < wanted.size(); ++g) {
    wanted[g].store(all[0] + g * kLanes);
    cost[g].store(all[1] + g * kLanes);
  }
  const size_t count = wanted.size() * kLanes;
  for (size_t i = 0; i < count; ++i) largest = std::abs(all[0][i]) > std::abs(largest) ? all[0][i] : largest;
  if (largest == 0.0f) return 0.0f;
  static constexpr float kSteps[kLanes] = {-0.8f, -0.6f, -0.4f, -0.2f, 0.0f, 0.2f, 0.4f, 0.6f};
  const Vec inverse = (end + (end < 0 ? -Vec::load(kSteps) : Vec::load(kSteps))) * (1.0f / largest);
  Vec xs = 0.0f, ss = 0.0f;
  for (size_t i = 0; i < count; ++i) {
    const Vec s = round_within(all[0][i] * inverse, lo, hi), weighted = all[1][i] * s;
    xs += all[0][i] * weighted;
    ss += s * weighted;
  }
  const Vec d = xs * inverse_or_zero(ss), gain = d * xs;
  float best = largest / end, best_gain = 0;
  for (size_t l = 0; l < kLanes; ++l) {
    if (gain[l] > best_gain) best = d[l], best_gain = gain[l];
  }
  return as_f16(best);
}

// The integer scales near the wanted ones whose error is least once they are multiplied by d.
template <class Search>
Vec stored_scales(const Lanes& lanes, float d, Vec wanted, const IntGrid& scales, const Search& search) {
  const Vec lo = static_cast<float>(scales.lo), hi = static_cast<float>(scales.hi);
  const Vec middle = round_within(wanted * inverse_or_zero(d), lo, hi);
  Vec best = middle, best_error = scaled_error(lanes, d * middle, search);
  for (const float step : {-1.0f, 1.0f}) {
    const Vec candidate = least(most(middle + step, lo), hi);
    const Vec error = scaled_error(lanes, d * candidate, search);
    best = select(error < best_error, candidate, best);
    best_error = least(error, best_error);
  }
  return best;
}

template <class Search>
ScaledBlock fit_scaled_block_with(const Groups& groups, const Search& search, const IntGrid& scales) {
  Vec wanted[2] = {}, cost[2] = {};
  for (size_t g = 0; g < groups.count; ++g) {
    const Scales fitted = fit_scales(groups.lanes[g], search);
    wanted[g] = fitted.scale;
    cost[g] = fitted.cost;
  }
  ScaledBlock block;
  const float lo = static_cast<float>(scales.lo), hi = static_cast<float>(scales.hi);
  block.d = fit_d({wanted, groups.count}, {cost, groups.count}, lo, hi, lo);
  for (size_t g = 0; g < groups.count; ++g) {
    const Lanes& lanes = groups.lanes[g];
    const Vec stored = stored_scales(lanes, block.d, wanted[g], scales, search);
    for (size_t l = 0; l < kLanes; ++l) {
      const size_t sub = g * kLanes + l;
      block.scale[sub] = static_cast<int8_t>(stored[l]);
      const float inverse = ingot::inverse_or_zero(block.d * stored[l]);
      for (size_t i = sub * lanes.size; i < (sub + 1) * lanes.size; ++i) {
        block.q[i] = static_cast<int8_t>(search.code(groups.values[i] * inverse));
      }
    }
  }
  return block;
}

// x ≈ scale · q + base with base ≤ 0 ≤ scale, q in 0…q_max, in each lane.
struct Lines {
  Vec scale = 0.0f, base = 0.0f, error = 0.0f;
  Vec scale_cost = 0.0f, base_cost = 0.0f;  // what the square of a deviation costs
  INGOT_INLINE void keep_better(const Lines& other) {
    const Mask better = other.error < error;
    scale = select(better, other.scale, scale);
    base = select(better, other.base, base);
    error = select(better, other.error, error);
    scale_cost = select(better, other.scale_cost, scale_cost);
  }
};

// The errors of `kScales` scales with one base.
template <size_t kScales>
void affine_errors(const Lanes& lanes, const Vec* scale, const Vec* inverse, Vec base, float q_max, Vec* errors) {
  Vec error[kScales];
  for (Vec& e : error) e = 0.0f;
  for (size_t i = 0; i < lanes.size; ++i) {
    const Vec above = lanes.x[i] - base;
    for (size_t s = 0; s < kScales; ++s) {
      const Vec e = above - scale[s] * round_within(above * inverse[s], 0.0f, q_max);
      error[s] += lanes.weight[i] * (e * e);
    }
  }
  for (size_t s = 0; s < kScales; ++s) errors[s] = error[s];
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
      const Vec y = above_[i] = lanes.x[i] - lo_, weighted = lanes.weight[i] * y;
      w_ += lanes.weight[i];
      y_ += weighted;
      yy_ += weighted * y;
    }
  }

  Lines find() const {
    const Vec range = hi_ - lo_;
    Lines best{.scale = range * (1.0f / q_max_), .base = lo_, .error = std::numeric_limits<float>::infinity()};
    const Vec inverse_range = inverse_or_zero(range);
    // From three steps fewer in the range to one more (clipping the largest). 13 starts gain 0.1 % with four bits and
    // nothing with five, but 0.4 % with two, where three steps are all there are.
    static constexpr int8_t kTenths[] = {-30, -20, -15, -11, -7, -4, 0, 3, 7};
    static constexpr int8_t kTenthsOfTwoBits[] = {-20, -10, -8, -6, -4, -2, 0, 2, 4, 6, 8, 10};
    for (const int8_t tenth : q_max_ > 3 ? std::span<const int8_t>(kTenths) : kTenthsOfTwoBits) {
      best.keep_better(line_for<true>((q_max_ + 0.1f * static_cast<float>(tenth)) * inverse_range, 0.0f));
    }
    for (int round = 0; round < 2; ++round) {
      best.keep_better(line_for<false>(inverse_or_zero(best.scale), best.base - lo_));
    }
    // All values equal and not above 0: the base alone.
    const Mask equal = range == 0.0f;
    best.scale = select(equal, 0.0f, best.scale);
    best.base = select(equal, lo_, best.base);
    best.base_cost = w_;
    return best;
  }

 private:
  // The least-squares lines through (q, x) for the q that `inverse` and `offset`, the base less lo, give.
  template <bool kFromLo>
  Lines line_for(Vec inverse, Vec offset) const {
    Vec q1 = 0.0f, qq = 0.0f, yq = 0.0f;
    for (size_t i = 0; i < lanes_.size; ++i) {
      const Vec y = above_[i];
      const Vec q =
          kFromLo ? nearest_integer(least(y * inverse, q_max_)) : round_within((y - offset) * inverse, 0.0f, q_max_);
      const Vec weighted = lanes_.weight[i] * q;
      q1 += weighted;
      qq += q * weighted;
      yq += y * weighted;
    }
    const Vec determinant = w_ * qq - q1 * q1;
    const Vec factor = 1.0f / determinant;
    const Vec above = (qq * y_ - q1 * yq) * factor;
    // Where the base would be above 0 it is held there: the line through the origin.
    const Mask held = (-lo_ < above) | (determinant < kLeast);
    const Vec b = select(held, -lo_, above);
    const Vec scale = select(held, (yq - b * q1) * inverse_or_zero(qq), (w_ * yq - y_ * q1) * factor);
    // Σ w (y − scale · q − b)²
    const Vec error = yy_ - 2.0f * (scale * yq + b * y_) + scale * (scale * qq + 2.0f * (b * q1)) + b * b * w_;
    return {.scale = scale,
            .base = lo_ + b,
            .error = select(0.0f < scale, error, std::numeric_limits<float>::infinity()),
            .scale_cost = qq};
  }

  static constexpr float kLeast = std::numeric_limits<float>::min();
  const Lanes& lanes_;
  Vec above_[32];  // x − lo
  const float q_max_;
  Vec lo_ = 0.0f, hi_;
  Vec w_ = 0.0f, y_ = 0.0f, yy_ = 0.0f;
};

// The stored scales and mins around the wanted ones whose error is least once multiplied by d and dmin.
class StoredPairs {
 public:
  Vec scale, min;

  StoredPairs(const Lanes& lanes, float d, float dmin, const Lines& wanted, float q_max, float scale_max) {
    const Vec top = scale_max;
    scale = round_within(wanted.scale * inverse_or_zero(d), 0.0f, top);
    min = round_within(-wanted.base * inverse_or_zero(dmin), 0.0f, top);
    const Vec middle = min, lower = most(min - 1.0f, 0.0f), higher = least(min + 1.0f, top);
    scales_[0] = most(scale - 1.0f, 0.0f);
    scales_[1] = scale;
    scales_[2] = least(scale + 1.0f, top);
    for (size_t s = 0; s < 3; ++s) {
      scaled_[s] = d * scales_[s];
      inverse_[s] = inverse_or_zero(scaled_[s]);
    }
    // A scale and a min that change in opposite directions move the largest values twice: trying both gains 0.01 % with
    // four bits.
    keep_best<3>(lanes, 0, middle, dmin, q_max);
    keep_best<2>(lanes, 0, lower, dmin, q_max);
    keep_best<2>(lanes, 1, higher, dmin, q_max);
  }

 private:
  // Of `kScales` scales from `first` on, with the min `m`.
  template <size_t kScales>
  INGOT_INLINE void keep_best(const Lanes& lanes, size_t first, Vec m, float dmin, float q_max) {
    Vec errors[kScales];
    affine_errors<kScales>(lanes, scaled_ + first, inverse_ + first, -(dmin * m), q_max, errors);
    for (size_t s = 0; s < kScales; ++s) {
      const Mask better = errors[s] < least_error_;
      scale = select(better, scales_[first + s], scale);
      min = select(better, m, min);
      least_error_ = select(better, errors[s], least_error_);
    }
  }

  Vec scales_[3], scaled_[3], inverse_[3];
  Vec least_error_ = std::numeric_limits<float>::infinity();
};

AffineBlock fit_affine(std::span<const float> x, const float* importance, size_t sub_size, int q_max, int scale_max) {
  const Groups groups(x, importance, sub_size);
  const float top = static_cast<float>(q_max), scale_top = static_cast<float>(scale_max);
  Lines wanted[2];
  Vec scale[2] = {}, scale_cost[2] = {}, min[2] = {}, min_cost[2] = {};
  for (size_t g = 0; g < groups.count; ++g) {
    wanted[g] = LineSearch(groups.lanes[g], top).find();
    scale[g] = wanted[g].scale;
    scale_cost[g] = wanted[g].scale_cost;
    min[g] = -wanted[g].base;
    min_cost[g] = wanted[g].base_cost;
  }
  AffineBlock block;
  block.d = fit_d({scale, groups.count}, {scale_cost, groups.count}, 0.0f, scale_top, scale_top);
  block.dmin = fit_d({min, groups.count}, {min_cost, groups.count}, 0.0f, scale_top, scale_top);
  for (size_t g = 0; g < groups.count; ++g) {
    const Lanes& lanes = groups.lanes[g];
    const StoredPairs stored(lanes, block.d, block.dmin, wanted[g], top, scale_top);
    for (size_t l = 0; l < kLanes; ++l) {
      const size_t sub = g * kLanes + l;
      block.scale[sub] = static_cast<uint8_t>(stored.scale[l]);
      block.min[sub] = static_cast<uint8_t>(stored.min[l]);
      const float inverse = ingot::inverse_or_zero(block.d * stored.scale[l]), base = block.dmin * stored.min[l];
      for (size_t i = sub * lanes.size; i < (sub + 1) * lanes.size; ++i) {
        block.q[i] = static_cast<uint8_t>(round_clamp((x[i] + base) * inverse, 0.0f, top));
      }
    }
  }
  return block;
}

template <class Search, class Grid>
ScaledBlock fit_scaled(std::span<const float> x, const float* importance, size_t sub_size, const Grid& grid,
                       const IntGrid& scales) {
  return fit_scaled_block_with(Groups(x, importance, sub_size), Search(grid), scales);
}

constexpr BlockFits make_block_fits(const char* name) {
  return {.name = name,
          .scaled = fit_scaled<IntSearch, IntGrid>,
          .scaled_book = fit_scaled<CodebookSearch, Codebook>,
          .affine = fit_affine};
}

}  // namespace
}  // namespace ingot
