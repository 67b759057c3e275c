#include "quant/fit.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "quant/fields.h"
#include "tensor/dtype.h"

namespace ingot {
namespace {

constexpr size_t kBlock = 256;

float as_f16(float value) { return f16_to_f32(f32_to_f16(value)); }

// A sum in 8 lanes, so that loops over it are vectorized and still add in one order everywhere. Float is
// enough: where squares leave its range, the block's f16 scales have long left theirs.
constexpr size_t kLanes = 8;
struct Sum {
  float lane[kLanes] = {};
  float total() const {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  }
};

// A grid with all that the search asks of it: the nearest entry, and the entries at its ends.
struct IntSearch {
  float lo, hi;
  explicit IntSearch(const IntGrid& grid) : lo(static_cast<float>(grid.lo)), hi(static_cast<float>(grid.hi)) {}
  float nearest(float x) const { return round_clamp(x, lo, hi); }
  int code(float x) const { return static_cast<int>(nearest(x)); }
  // Where the largest |x| may fall: on an end, or one further in.
  std::array<float, 4> ends() const { return {lo, lo + 1.0f, hi, hi - 1.0f}; }
  float spread() const { return 1.0f; }
};

struct CodebookSearch {
  const Codebook& book;
  explicit CodebookSearch(const Codebook& b) : book(b) {}
  float value(size_t code) const { return static_cast<float>(book.values[code]); }
  float nearest(float x) const { return value(static_cast<size_t>(code(x))); }
  int code(float x) const { return book.code(x); }
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
Moments moments(std::span<const float> x, float inverse, const Search& search) {
  Sum xq, qq;
  for (size_t i = 0; i < x.size(); i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const float q = search.nearest(x[i + l] * inverse);
      xq.lane[l] += x[i + l] * q;
      qq.lane[l] += q * q;
    }
  }
  return {.xq = xq.total(), .qq = qq.total()};
}

template <class Search>
float fit_scale_with(std::span<const float> x, const Search& search) {
  float largest = 0;
  for (const float v : x) largest = std::abs(v) > std::abs(largest) ? v : largest;
  if (largest == 0.0f) return 0.0f;
  Moments best;
  const std::array<float, 4> ends = search.ends();
  for (const float end : ends) {
    // Around each end in steps of a quarter of the spread; exactly on it too, so that values which were
    // decoded are found again.
    for (int step = -2; step <= 2; ++step) {
      const float inverse = (end + 0.25f * static_cast<float>(step) * search.spread()) / largest;
      const Moments m = moments(x, inverse, search);
      if (m.gain() > best.gain()) best = m;
    }
  }
  // Two rounds of the alternation scale → values → scale; never worse, and a third gains nothing.
  for (int round = 0; round < 2; ++round) {
    const Moments m = moments(x, inverse_or_zero(best.scale()), search);
    if (m.gain() > best.gain()) best = m;
  }
  return best.scale();
}

template <class Search>
float scaled_error(std::span<const float> x, float scale, const Search& search) {
  const float inverse = inverse_or_zero(scale);
  Sum error;
  for (size_t i = 0; i < x.size(); i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const float e = x[i + l] - scale * search.nearest(x[i + l] * inverse);
      error.lane[l] += e * e;
    }
  }
  return error.total();
}

// The integer scale near `wanted` whose error is least once it is multiplied by d. `keep`: the nearest,
// for the largest of a block, because only so is d found again in values that were decoded.
template <class Search>
int best_stored_scale(std::span<const float> x, float d, float wanted, bool keep, const IntGrid& scales,
                      const Search& search) {
  const int middle = round_clamp(wanted * inverse_or_zero(d), scales.lo, scales.hi);
  if (keep) return middle;
  int best = middle;
  float best_error = scaled_error(x, d * static_cast<float>(middle), search);
  for (const int candidate : {middle - 1, middle + 1}) {
    if (candidate < scales.lo || candidate > scales.hi) continue;
    const float error = scaled_error(x, d * static_cast<float>(candidate), search);
    if (error < best_error) best = candidate, best_error = error;
  }
  return best;
}

template <class Search>
ScaledBlock fit_scaled_block_with(std::span<const float> x, size_t sub_size, const Search& search,
                                  const IntGrid& scales) {
  CHECK(x.size() == kBlock && sub_size >= 16, "block of {} in {}", x.size(), sub_size);
  const size_t subs = kBlock / sub_size;
  std::array<float, 16> wanted{};
  float largest = 0;
  for (size_t j = 0; j < subs; ++j) {
    wanted[j] = fit_scale_with(x.subspan(j * sub_size, sub_size), search);
    if (std::abs(wanted[j]) > std::abs(largest)) largest = wanted[j];
  }
  ScaledBlock block;
  block.d = as_f16(largest / static_cast<float>(scales.lo));
  for (size_t j = 0; j < subs; ++j) {
    const std::span<const float> sub = x.subspan(j * sub_size, sub_size);
    const int scale = best_stored_scale(sub, block.d, wanted[j], wanted[j] == largest, scales, search);
    const float inverse = inverse_or_zero(block.d * static_cast<float>(scale));
    block.scale[j] = static_cast<int8_t>(scale);
    for (size_t i = 0; i < sub_size; ++i) {
      block.q[j * sub_size + i] = static_cast<int8_t>(search.code(sub[i] * inverse));
    }
  }
  return block;
}

// x ≈ scale · q + base with base ≤ 0 ≤ scale, q in 0…q_max.
struct Affine {
  float scale = 0, base = 0;
  float error = 0;
};

float affine_error(std::span<const float> x, float scale, float base, float q_max) {
  const float inverse = inverse_or_zero(scale);
  Sum error;
  for (size_t i = 0; i < x.size(); i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const float v = x[i + l];
      const float e = v - (scale * round_clamp((v - base) * inverse, 0.0f, q_max) + base);
      error.lane[l] += e * e;
    }
  }
  return error.total();
}

// The least-squares line through (q, x) for the q that `inverse` and `base` give.
Affine least_squares(std::span<const float> x, float inverse, float base, float q_max) {
  Sum lanes_x, lanes_xq, lanes_q, lanes_qq;
  for (size_t i = 0; i < x.size(); i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const float v = x[i + l];
      const float q = round_clamp((v - base) * inverse, 0.0f, q_max);
      lanes_x.lane[l] += v;
      lanes_xq.lane[l] += v * q;
      lanes_q.lane[l] += q;
      lanes_qq.lane[l] += q * q;
    }
  }
  // In double: the differences below cancel most of what they are made of.
  const double n = static_cast<double>(x.size());
  const double sum_x = lanes_x.total(), sum_xq = lanes_xq.total(), sum_q = lanes_q.total(), sum_qq = lanes_qq.total();
  const double determinant = n * sum_qq - sum_q * sum_q;
  Affine line;
  if (determinant > 0) {
    line.scale = static_cast<float>((n * sum_xq - sum_x * sum_q) / determinant);
    line.base = static_cast<float>((sum_qq * sum_x - sum_q * sum_xq) / determinant);
  }
  if (line.base > 0 || determinant <= 0) {  // base is held at 0: the line through the origin
    line.base = 0;
    line.scale = sum_qq > 0 ? static_cast<float>(sum_xq / sum_qq) : 0.0f;
  }
  if (!(line.scale > 0)) line.scale = 0;
  line.error = affine_error(x, line.scale, line.base, q_max);
  return line;
}

Affine fit_affine(std::span<const float> x, float q_max) {
  float lo = 0, hi = x[0];
  for (const float v : x) {
    lo = v < lo ? v : lo;
    hi = v > hi ? v : hi;
  }
  if (!(hi > lo)) return {.scale = 0, .base = lo, .error = 0};  // all values equal and not above 0
  Affine best{.scale = (hi - lo) / q_max, .base = lo};
  best.error = affine_error(x, best.scale, best.base, q_max);
  // From five steps fewer in the range to one more (clipping the largest), in tenths around all of it.
  for (int tenth = -50; tenth <= 10; tenth += tenth < -10 ? 10 : 1) {
    const Affine line = least_squares(x, (q_max + 0.1f * static_cast<float>(tenth)) / (hi - lo), lo, q_max);
    if (line.error < best.error) best = line;
  }
  for (int round = 0; round < 2; ++round) {
    const Affine line = least_squares(x, inverse_or_zero(best.scale), best.base, q_max);
    if (line.error < best.error) best = line;
  }
  return best;
}

struct StoredPair {
  int scale = 0, min = 0;
};

// The stored scale and min around the wanted ones whose error is least once multiplied by d and dmin.
// `largest` are the scale and the base that d and dmin were made for.
StoredPair best_stored_pair(std::span<const float> x, float d, float dmin, const Affine& wanted, const Affine& largest,
                            float q_max, int scale_max) {
  const int scale = round_clamp(wanted.scale * inverse_or_zero(d), 0, scale_max);
  const int min = round_clamp(-wanted.base * inverse_or_zero(dmin), 0, scale_max);
  StoredPair best{scale, min};
  float best_error = affine_error(x, d * static_cast<float>(scale), -(dmin * static_cast<float>(min)), q_max);
  // The largest stay the largest: only so are d and dmin found again in values that were decoded.
  const int s_end = wanted.scale == largest.scale ? 0 : 1, m_end = wanted.base == largest.base ? 0 : 1;
  for (int s = scale - s_end; s <= scale + s_end; ++s) {
    for (int m = min - m_end; m <= min + m_end; ++m) {
      if (s < 0 || s > scale_max || m < 0 || m > scale_max) continue;
      const float error = affine_error(x, d * static_cast<float>(s), -(dmin * static_cast<float>(m)), q_max);
      if (error < best_error) best = {s, m}, best_error = error;
    }
  }
  return best;
}

}  // namespace

float fit_scale(std::span<const float> x, const IntGrid& grid) { return fit_scale_with(x, IntSearch(grid)); }
float fit_scale(std::span<const float> x, const Codebook& grid) { return fit_scale_with(x, CodebookSearch(grid)); }

ScaledBlock fit_scaled_block(std::span<const float> x, size_t sub_size, const IntGrid& grid, const IntGrid& scales) {
  return fit_scaled_block_with(x, sub_size, IntSearch(grid), scales);
}
ScaledBlock fit_scaled_block(std::span<const float> x, size_t sub_size, const Codebook& grid, const IntGrid& scales) {
  return fit_scaled_block_with(x, sub_size, CodebookSearch(grid), scales);
}

AffineBlock fit_affine_block(std::span<const float> x, size_t sub_size, int q_max, int scale_max) {
  CHECK(x.size() == kBlock && sub_size >= 16, "block of {} in {}", x.size(), sub_size);
  const size_t subs = kBlock / sub_size;
  const float top = static_cast<float>(q_max);
  std::array<Affine, 16> wanted{};
  Affine largest;
  for (size_t j = 0; j < subs; ++j) {
    wanted[j] = fit_affine(x.subspan(j * sub_size, sub_size), top);
    largest.scale = wanted[j].scale > largest.scale ? wanted[j].scale : largest.scale;
    largest.base = wanted[j].base < largest.base ? wanted[j].base : largest.base;
  }
  AffineBlock block;
  block.d = as_f16(largest.scale / static_cast<float>(scale_max));
  block.dmin = as_f16(-largest.base / static_cast<float>(scale_max));
  for (size_t j = 0; j < subs; ++j) {
    const std::span<const float> sub = x.subspan(j * sub_size, sub_size);
    const StoredPair stored = best_stored_pair(sub, block.d, block.dmin, wanted[j], largest, top, scale_max);
    block.scale[j] = static_cast<uint8_t>(stored.scale);
    block.min[j] = static_cast<uint8_t>(stored.min);
    const float inverse = inverse_or_zero(block.d * static_cast<float>(stored.scale));
    const float base = -(block.dmin * static_cast<float>(stored.min));
    for (size_t i = 0; i < sub_size; ++i) {
      block.q[j * sub_size + i] = static_cast<uint8_t>(round_clamp((sub[i] - base) * inverse, 0, q_max));
    }
  }
  return block;
}

}  // namespace ingot
