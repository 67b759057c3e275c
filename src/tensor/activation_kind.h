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
};

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
  }
  return "?";
}

}  // namespace ingot
