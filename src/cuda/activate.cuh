// The activation functions on the device, in f32.
#pragma once

#include "cuda/kernel.cuh"
#include "tensor/activation_kind.h"

namespace ingot::cuda {

template <ActivationKind kKind>
__device__ inline float activate(float x) {
  if constexpr (kKind == ActivationKind::kSilu) return x / (1.0f + expf(-x));
  if constexpr (kKind == ActivationKind::kGelu) return x * 0.5f * (1.0f + erff(x * 0.70710678f));
  if constexpr (kKind == ActivationKind::kGeluTanh)
    return x * 0.5f * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  if constexpr (kKind == ActivationKind::kRelu) return x < 0.0f ? 0.0f : x;  // NaN stays
  if constexpr (kKind == ActivationKind::kSigmoid) return 1.0f / (1.0f + expf(-x));
  return x;
}

// f(gate) · up.
template <ActivationKind kKind>
__device__ inline float gated(float gate, float up) {
  if constexpr (kKind == ActivationKind::kClampedSwiglu) {
    const float g = gate > kClampedSwigluLimit ? kClampedSwigluLimit : gate;
    float u = up > kClampedSwigluLimit ? kClampedSwigluLimit : up;
    u = u < -kClampedSwigluLimit ? -kClampedSwigluLimit : u;
    return g * activate<ActivationKind::kSigmoid>(kClampedSwigluSlope * g) * (u + 1.0f);
  }
  return activate<kKind>(gate) * up;
}

// The same for a kind that is known when the kernel runs; kNone: up.
__device__ inline float gated_by(ActivationKind kind, float gate, float up) {
  switch (kind) {
    case ActivationKind::kNone:
      return up;
    case ActivationKind::kSilu:
      return gated<ActivationKind::kSilu>(gate, up);
    case ActivationKind::kGelu:
      return gated<ActivationKind::kGelu>(gate, up);
    case ActivationKind::kGeluTanh:
      return gated<ActivationKind::kGeluTanh>(gate, up);
    case ActivationKind::kRelu:
      return gated<ActivationKind::kRelu>(gate, up);
    case ActivationKind::kSigmoid:
      return gated<ActivationKind::kSigmoid>(gate, up);
    case ActivationKind::kClampedSwiglu:
      return gated<ActivationKind::kClampedSwiglu>(gate, up);
  }
  return up;
}

// Calls f.template operator()<kind>().
template <class F>
void visit_activation(ActivationKind kind, F&& f) {
  switch (kind) {
    case ActivationKind::kNone:
      return f.template operator()<ActivationKind::kNone>();
    case ActivationKind::kSilu:
      return f.template operator()<ActivationKind::kSilu>();
    case ActivationKind::kGelu:
      return f.template operator()<ActivationKind::kGelu>();
    case ActivationKind::kGeluTanh:
      return f.template operator()<ActivationKind::kGeluTanh>();
    case ActivationKind::kRelu:
      return f.template operator()<ActivationKind::kRelu>();
    case ActivationKind::kSigmoid:
      return f.template operator()<ActivationKind::kSigmoid>();
    case ActivationKind::kClampedSwiglu:
      return f.template operator()<ActivationKind::kClampedSwiglu>();
  }
}

}  // namespace ingot::cuda
