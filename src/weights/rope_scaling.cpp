#include "weights/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <string_view>

#include "base/error.h"

namespace ingot {
namespace {

// Frequencies are float32 at every step that the models' own training code has in float32; scalars that
// it computes as Python numbers are double here.

void require_positive(double value, std::string_view name) {
  if (!std::isfinite(value) || value <= 0) throw Error("[rope] {} is {}, it must be a positive number", name, value);
}

void check_factors(const std::vector<float>& factors, size_t pairs, std::string_view name) {
  if (factors.size() != pairs) {
    throw Error("[rope] {} has {} values, {} pairs of dimensions are rotated", name, factors.size(), pairs);
  }
  for (const float f : factors) require_positive(f, name);
}

// theta^(2i / dim) for each pair i.
std::vector<float> wavelengths(double theta, int dim) {
  std::vector<float> result(static_cast<size_t>(dim / 2));
  const double base = static_cast<float>(theta);
  for (size_t i = 0; i < result.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    result[i] = static_cast<float>(std::pow(base, static_cast<double>(exponent)));
  }
  return result;
}

std::vector<float> inverse(std::vector<float> values) {
  for (float& v : values) v = 1.0f / v;
  return values;
}

// The base grows with the context beyond the one that the model was made for.
double dynamic_theta(const RopeSpec& spec, int context) {
  const double dim = spec.rotary_dim();
  if (dim <= 2) throw Error("[rope] dynamic scaling needs more than 2 rotated dimensions");
  require_positive(spec.max_context, "max_position_embeddings");
  const double length = std::max(context, spec.max_context);
  return spec.theta * std::pow(spec.factor * length / spec.max_context - (spec.factor - 1), dim / (dim - 2));
}

double yarn_magnitude(const RopeSpec& spec) {
  if (spec.attention_factor) return *spec.attention_factor;
  const auto mscale = [&](double scale) { return spec.factor <= 1 ? 1.0 : 0.1 * scale * std::log(spec.factor) + 1.0; };
  const double part = spec.mscale.value_or(0), all = spec.mscale_all_dim.value_or(0);
  return part != 0 && all != 0 ? mscale(part) / mscale(all) : mscale(1);
}

// Dimensions that turn often keep their frequency, those that turn seldom are stretched by the factor,
// and a linear ramp lies between them.
std::vector<float> yarn(const RopeSpec& spec, double original) {
  const int dim = spec.rotary_dim();
  require_positive(spec.beta_fast, "beta_fast");
  require_positive(spec.beta_slow, "beta_slow");
  const auto dimension_of = [&](double rotations) {
    return dim * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(spec.theta));
  };
  double low = dimension_of(spec.beta_fast), high = dimension_of(spec.beta_slow);
  if (spec.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;
  std::vector<float> result = wavelengths(spec.theta, dim);
  for (size_t i = 0; i < result.size(); ++i) {
    const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float own = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    const float stretched = 1.0f / (static_cast<float>(spec.factor) * result[i]);
    result[i] = stretched * (1.0f - own) + (1.0f / result[i]) * own;
  }
  return result;
}

std::vector<float> llama3(const RopeSpec& spec, double original) {
  require_positive(spec.low_freq_factor, "low_freq_factor");
  require_positive(spec.high_freq_factor, "high_freq_factor");
  const float low = static_cast<float>(spec.low_freq_factor);
  const float span = static_cast<float>(spec.high_freq_factor - spec.low_freq_factor);
  const float factor = static_cast<float>(spec.factor);
  const float longest = static_cast<float>(original / spec.low_freq_factor);
  const float shortest = static_cast<float>(original / spec.high_freq_factor);
  std::vector<float> result = inverse(wavelengths(spec.theta, spec.rotary_dim()));
  for (float& f : result) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / f;
    if (wavelength > longest) {
      f /= factor;
    } else if (wavelength >= shortest) {
      const float smooth = (static_cast<float>(original) / wavelength - low) / span;
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
  return result;
}

std::vector<float> longrope(const RopeSpec& spec, double original, int context) {
  const bool is_long = context > original;
  const std::vector<float>& factors = is_long ? spec.long_factor : spec.short_factor;
  std::vector<float> result = wavelengths(spec.theta, spec.rotary_dim());
  check_factors(factors, result.size(), is_long ? "long_factor" : "short_factor");
  for (size_t i = 0; i < result.size(); ++i) result[i] = 1.0f / (factors[i] * result[i]);
  return result;
}

double longrope_magnitude(const RopeSpec& spec, double original) {
  if (spec.attention_factor) return *spec.attention_factor;
  const double factor = spec.factor > 1 ? spec.factor : spec.max_context / original;
  return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeSpec& spec, int context) {
  const int dim = spec.rotary_dim();
  if (dim < 2 || dim % 2 != 0 || dim > spec.head_dim) {
    throw Error("[rope] {} of a head's {} dimensions cannot be rotated in pairs", dim, spec.head_dim);
  }
  require_positive(spec.theta, "theta");
  require_positive(spec.factor, "factor");
  const double original = spec.original_context > 0 ? spec.original_context : spec.max_context;
  if (spec.kind == RopeKind::kYarn || spec.kind == RopeKind::kLlama3 || spec.kind == RopeKind::kLongrope)
    require_positive(original, "original_max_position_embeddings");
  RopeFrequencies result;
  switch (spec.kind) {
    case RopeKind::kDefault:
      result.inv_freq = inverse(wavelengths(spec.theta, dim));
      break;
    case RopeKind::kLinear:
      result.inv_freq = inverse(wavelengths(spec.theta, dim));
      for (float& f : result.inv_freq) f /= static_cast<float>(spec.factor);
      break;
    case RopeKind::kDynamic:
      result.inv_freq = inverse(wavelengths(dynamic_theta(spec, context), dim));
      break;
    case RopeKind::kYarn:
      result.inv_freq = yarn(spec, original);
      result.magnitude = static_cast<float>(yarn_magnitude(spec));
      break;
    case RopeKind::kLlama3:
      result.inv_freq = llama3(spec, original);
      break;
    case RopeKind::kLongrope:
      result.inv_freq = longrope(spec, original, context);
      result.magnitude = static_cast<float>(longrope_magnitude(spec, original));
      break;
  }
  if (!spec.freq_factors.empty()) {
    check_factors(spec.freq_factors, result.inv_freq.size(), "rope_freqs");
    for (size_t i = 0; i < result.inv_freq.size(); ++i) result.inv_freq[i] /= spec.freq_factors[i];
  }
  for (const float f : result.inv_freq) {
    if (!std::isfinite(f)) throw Error("[rope] a frequency of theta {} is not finite", spec.theta);
  }
  require_positive(result.magnitude, "attention factor");
  return result;
}

}  // namespace ingot
