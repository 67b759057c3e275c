// The element-wise activation functions that models use.
#pragma once

#include <cstdint>
#include <string_view>

namespace ingot {

enum class ActivationKind : uint8_t {
  kNone,
  kSilu,      // x / (1 + exp(-x))
  kGelu,      // x · Φ(x), with erf
  kGeluTanh,  // the tanh approximation of it
  kRelu,
  kSigmoid,  // 1 / (1 + exp(-x))
  // Of a GLU alone: g · sigmoid(1.702 · g) · (u + 1) with g = min(gate, 7) and u = up within ±7.
  kClampedSwiglu,
};

inline constexpr float kClampedSwigluLimit = 7.0f, kClampedSwigluSlope = 1.702f;

constexpr std::string_view activation_name(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kNone:
      return "none";
    case ActivationKind::kSilu:
      return "silu";
    case ActivationKind::kGelu:
      return "gelu";
    case ActivationKind::kGeluTanh:
      return "gelu_tanh";
    case ActivationKind::kRelu:
      return "relu";
    case ActivationKind::kSigmoid:
      return "sigmoid";
    case ActivationKind::kClampedSwiglu:
      return "clamped_swiglu";
  }
  return "?";
}

}  // namespace ingot
