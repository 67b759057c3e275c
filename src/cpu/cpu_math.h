// exp, tanh, erf and the activation functions of the CPU versions: straight-line polynomials without
// branches or tables, so that the compiler vectorizes a loop over them, and an element's value is the
// same whether a vector lane or a scalar tail computed it, and for every instruction set. They are static
// so that a copy compiled for a newer CPU never stands in for the baseline's at link time.
//
// Largest errors over all finite floats, measured against float64 by cpu_math_test.cpp: exp 1 ulp,
// tanh 3 ulp, erf 3 ulp. NaN gives NaN.
#pragma once

#include <cstdint>

#include "tensor/activation_kind.h"

namespace ingot::cpu {

// 0 at -inf and below -104, +inf above 88.72; subnormal results are rounded correctly.
// a · b + c, in one rounding where every file of a build has the instruction, so that all of them give the same bits.
static inline float multiply_add(float a, float b, float c) {
#if defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

static inline float exp_f32(float x) {
  // 1.5 · 2^23: adding it rounds to an integer in the low bits of the sum.
  constexpr float kRound = 12582912.0f;
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = multiply_add(x, 1.44269504f, kRound);
  const float n = shifted - kRound;
  // ln 2 in two parts: n · 0.693359375 is exact for |n| < 2^15.
  const float r = multiply_add(n, 2.12194440e-4f, multiply_add(n, -0.693359375f, x));
  float p = 1.99160131e-4f;
  p = multiply_add(p, r, 1.39464391e-3f);
  p = multiply_add(p, r, 8.33326858e-3f);
  p = multiply_add(p, r, 4.16662656e-2f);
  p = multiply_add(p, r, 1.66666672e-1f);
  p = multiply_add(p, r, 0.5f);
  p = multiply_add(r * r, p, r) + 1.0f;
  // 2^n as two factors, since n reaches from -150 to 128.
  const int32_t i = __builtin_bit_cast(int32_t, shifted) - __builtin_bit_cast(int32_t, kRound);
  const int32_t half = i >> 1;
  const float scale1 = __builtin_bit_cast(float, (half + 127) << 23);
  const float scale2 = __builtin_bit_cast(float, (i - half + 127) << 23);
  return p * scale1 * scale2;
}

static inline float tanh_f32(float x) {
  const float a = __builtin_fabsf(x);
  const float s = x * x;
  float p = -5.70951057e-3f;
  p = p * s + 2.06441494e-2f;
  p = p * s - 5.37416274e-2f;
  p = p * s + 1.33314702e-1f;
  p = p * s - 3.33332832e-1f;
  const float small = x + x * (s * p);
  const float large = __builtin_copysignf(1.0f - 2.0f / (exp_f32(2.0f * a) + 1.0f), x);
  return a < 0.625f ? small : large;
}

static inline float erf_f32(float x) {
  const float a = __builtin_fabsf(x);
  const float s = x * x;
  float p = -5.97719442e-4f;
  p = p * s + 4.99105133e-3f;
  p = p * s - 2.67656280e-2f;
  p = p * s + 1.12818051e-1f;
  p = p * s - 3.76124947e-1f;
  p = p * s + 1.28379150e-1f;
  const float small = x + x * p;
  // 1 - erfc(a), with log(erfc) a polynomial on [0.92, 4]; erf(4) rounds to 1.
  const float b = a > 4.0f ? 4.0f : a;
  float q = -2.11621583e-5f;
  q = q * b + 4.35221648e-4f;
  q = q * b - 4.17465571e-3f;
  q = q * b + 2.51286562e-2f;
  q = q * b - 1.08293993e-1f;
  q = q * b - 6.33334613e-1f;
  q = q * b - 1.12952084f;
  q = q * b + 1.75878255e-4f;
  const float large = __builtin_copysignf(1.0f - exp_f32(q), x);
  return a < 0.921875f ? small : large;
}

static inline float silu_f32(float x) { return x / (1.0f + exp_f32(-x)); }
static inline float gelu_f32(float x) { return 0.5f * x * (1.0f + erf_f32(x * 0.707106781f)); }
static inline float gelu_tanh_f32(float x) {
  return 0.5f * x * (1.0f + tanh_f32(0.797884561f * (x + 0.044715f * (x * x * x))));
}
static inline float relu_f32(float x) { return x < 0.0f ? 0.0f : x; }
static inline float sigmoid_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }
// NaN stays.
static inline float clamped_swiglu_f32(float gate, float up) {
  const float g = gate > kClampedSwigluLimit ? kClampedSwigluLimit : gate;
  float u = up > kClampedSwigluLimit ? kClampedSwigluLimit : up;
  u = u < -kClampedSwigluLimit ? -kClampedSwigluLimit : u;
  return g * sigmoid_f32(kClampedSwigluSlope * g) * (u + 1.0f);
}

// Calls f with the function of `kind`, a callable without state: outside a loop, so that the loop
// vectorizes. The unfused Glu and Linear's epilogue both go through here and give the same bits.
template <class F>
static inline decltype(auto) with_activation(ActivationKind kind, F&& f) {
  switch (kind) {
    case ActivationKind::kSilu:
      return f([](float x) { return silu_f32(x); });
    case ActivationKind::kGelu:
      return f([](float x) { return gelu_f32(x); });
    case ActivationKind::kGeluTanh:
      return f([](float x) { return gelu_tanh_f32(x); });
    case ActivationKind::kRelu:
      return f([](float x) { return relu_f32(x); });
    case ActivationKind::kSigmoid:
      return f([](float x) { return sigmoid_f32(x); });
    case ActivationKind::kClampedSwiglu:
    case ActivationKind::kNone:
      break;
  }
  return f([](float x) { return x; });
}

static inline float activate(ActivationKind kind, float x) {
  return with_activation(kind, [x](auto function) { return function(x); });
}

}  // namespace ingot::cpu
