#include "quant/fit.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "quant/fields.h"
#include "quant/fit_weights.h"

namespace ingot {
namespace {

constexpr size_t kLargestGroup = 128;

// A sum in 8 lanes, so that loops over it are vectorized and still add in one order everywhere. Float is
// enough: where squares leave its range, the block's f16 scales have long left theirs.
constexpr size_t kLanes = 8;
struct Sum {
  float lane[kLanes] = {};
  float total() const {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  }
};

// The values of one scale, and how much each counts.
struct Group {
  std::span<const float> x;
  std::array<float, kLargestGroup> weight;

  Group(std::span<const float> values, const float* importance) : x(values) {
    CHECK(x.size() % kLanes == 0 && x.size() <= kLargestGroup, "group of {}", x.size());
    if (importance) {
      fit_weights(x.data(), importance, x.size(), weight.data());
    } else {
      weight.fill(1.0f);
    }
  }
};

// A grid with all that the search asks of it: the nearest entry, and the entries at its ends.
struct IntSearch {
  float lo, hi;
  explicit IntSearch(const IntGrid& grid) : lo(static_cast<float>(grid.lo)), hi(static_cast<float>(grid.hi)) {}
  float nearest(float x) const { return round_clamp(x, lo, hi); }
  // Where the largest |x| may fall: on an end, or one further in.
  std::array<float, 4> ends() const { return {lo, lo + 1.0f, hi, hi - 1.0f}; }
  float spread() const { return 1.0f; }
};

struct CodebookSearch {
  const Codebook& book;
  explicit CodebookSearch(const Codebook& b) : book(b) {}
  float value(size_t code) const { return static_cast<float>(book.values[code]); }
  float nearest(float x) const { return value(static_cast<size_t>(book.code(x))); }
  std::array<float, 4> ends() const { return {value(0), value(1), value(15), value(14)}; }
  float spread() const { return value(1) - value(0); }
};

// Σ x·q and Σ q² for the q that are nearest to x · inverse.
struct Moments {
  float xq = 0, qq = 0;
  float gain() const { return qq > 0 ? xq * xq / qq : 0; }  // Σx² − gain() is the error of the best scale
  float scale() const { return qq > 0 ? xq / qq : 0; }
};

template <class Search>
Moments moments(const Group& group, float inverse, const Search& search) {
  Sum xq, qq;
  for (size_t i = 0; i < group.x.size(); i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const float x = group.x[i + l], q = search.nearest(x * inverse), weighted = group.weight[i + l] * q;
      xq.lane[l] += x * weighted;
      qq.lane[l] += q * weighted;
    }
  }
  return {.xq = xq.total(), .qq = qq.total()};
}

template <class Search>
float fit_scale_with(const Group& group, const Search& search) {
  float largest = 0;
  for (const float v : group.x) largest = std::abs(v) > std::abs(largest) ? v : largest;
  if (largest == 0.0f) return 0.0f;
  Moments best;
  const std::array<float, 4> ends = search.ends();
  for (const float end : ends) {
    // Around each end in steps of a quarter of the spread; exactly on it too, so that values which were
    // decoded are found again.
    for (int step = -2; step <= 2; ++step) {
      const float inverse = (end + 0.25f * static_cast<float>(step) * search.spread()) / largest;
      const Moments m = moments(group, inverse, search);
      if (m.gain() > best.gain()) best = m;
    }
  }
  // Two rounds of the alternation scale → values → scale; never worse, and a third gains nothing.
  for (int round = 0; round < 2; ++round) {
    const Moments m = moments(group, inverse_or_zero(best.scale()), search);
    if (m.gain() > best.gain()) best = m;
  }
  return best.scale();
}

float line_error(const Group& group, const Line& line, float q_max) {
  const float inverse = inverse_or_zero(line.scale);
  Sum error;
  for (size_t i = 0; i < group.x.size(); i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const float v = group.x[i + l];
      const float e = v - (line.scale * round_clamp((v - line.base) * inverse, 0.0f, q_max) + line.base);
      error.lane[l] += group.weight[i + l] * (e * e);
    }
  }
  return error.total();
}

// The least-squares line through (q, x) for the q that `inverse` and `base` give; {0, mean} where all q are equal.
Line least_squares(const Group& group, float inverse, float base, float q_max) {
  Sum lanes_w, lanes_x, lanes_xq, lanes_q, lanes_qq;
  for (size_t i = 0; i < group.x.size(); i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const float v = group.x[i + l], w = group.weight[i + l];
      const float q = round_clamp((v - base) * inverse, 0.0f, q_max), weighted = w * q;
      lanes_w.lane[l] += w;
      lanes_x.lane[l] += w * v;
      lanes_xq.lane[l] += v * weighted;
      lanes_q.lane[l] += weighted;
      lanes_qq.lane[l] += q * weighted;
    }
  }
  // In double: the differences below cancel most of what they are made of.
  const double n = lanes_w.total(), x = lanes_x.total(), xq = lanes_xq.total(), q = lanes_q.total(),
               qq = lanes_qq.total();
  const double determinant = n * qq - q * q;
  if (!(determinant > 0)) return {.scale = 0, .base = n > 0 ? static_cast<float>(x / n) : base};
  return {.scale = static_cast<float>((n * xq - x * q) / determinant),
          .base = static_cast<float>((qq * x - q * xq) / determinant)};
}

}  // namespace

float fit_scale(std::span<const float> x, const float* importance, const IntGrid& grid) {
  return fit_scale_with(Group(x, importance), IntSearch(grid));
}
float fit_scale(std::span<const float> x, const float* importance, const Codebook& grid) {
  return fit_scale_with(Group(x, importance), CodebookSearch(grid));
}

Line fit_line(std::span<const float> x, const float* importance, int q_max) {
  const Group group(x, importance);
  const float top = static_cast<float>(q_max);
  float lo = x[0], hi = x[0];
  for (const float v : x) {
    lo = v < lo ? v : lo;
    hi = v > hi ? v : hi;
  }
  if (!(hi > lo)) return {.scale = 0, .base = lo};
  Line best{.scale = (hi - lo) / top, .base = lo};
  float best_error = line_error(group, best, top);
  const auto keep_better = [&](const Line& line) {
    const float error = line_error(group, line, top);
    if (error < best_error) best = line, best_error = error;
  };
  // From a step fewer in the range to one more, which clips the ends.
  for (int tenth = -10; tenth <= 10; ++tenth) {
    keep_better(least_squares(group, (top + 0.1f * static_cast<float>(tenth)) / (hi - lo), lo, top));
  }
  for (int round = 0; round < 2; ++round)
    keep_better(least_squares(group, inverse_or_zero(best.scale), best.base, top));
  return best;
}

}  // namespace ingot
