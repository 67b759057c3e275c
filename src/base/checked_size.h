// Unsigned 64-bit arithmetic on sizes that come from files or requests: overflow, underflow and negative
// numbers throw Error instead of wrapping. Every such size is computed with it.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace ingot {

// `context` names what is computed ("[gguf] bytes of a tensor"); it begins the error's message and must outlive the
// value and everything computed from it. A result has the context of its left operand.
class CheckedSize {
 public:
  template <std::integral T>
  constexpr explicit CheckedSize(T value, std::string_view context = "[size]") : context_(context) {
    if constexpr (std::signed_integral<T>) {
      if (value < 0) throw Error("{}: {} is negative", context, static_cast<int64_t>(value));
    }
    value_ = static_cast<uint64_t>(value);
  }

  constexpr uint64_t value() const { return value_; }
  constexpr std::string_view context() const { return context_; }

  constexpr int64_t as_int64() const {
    if (value_ > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw Error("{}: {} does not fit in a signed 64-bit number", context_, value_);
    }
    return static_cast<int64_t>(value_);
  }

  constexpr size_t as_size() const {
    if (value_ > std::numeric_limits<size_t>::max()) throw Error("{}: {} is too large", context_, value_);
    return static_cast<size_t>(value_);
  }

  constexpr CheckedSize operator+(CheckedSize b) const {
    uint64_t result = 0;
    if (__builtin_add_overflow(value_, b.value_, &result))
      throw Error("{}: {} + {} overflows", context_, value_, b.value_);
    return CheckedSize(result, context_);
  }
  constexpr CheckedSize operator*(CheckedSize b) const {
    uint64_t result = 0;
    if (__builtin_mul_overflow(value_, b.value_, &result))
      throw Error("{}: {} * {} overflows", context_, value_, b.value_);
    return CheckedSize(result, context_);
  }
  constexpr CheckedSize operator-(CheckedSize b) const {
    if (b.value_ > value_) throw Error("{}: {} - {} is negative", context_, value_, b.value_);
    return CheckedSize(value_ - b.value_, context_);
  }
  constexpr CheckedSize operator/(CheckedSize b) const {
    if (b.value_ == 0) throw Error("{}: {} / 0", context_, value_);
    return CheckedSize(value_ / b.value_, context_);
  }
  constexpr CheckedSize operator%(CheckedSize b) const {
    if (b.value_ == 0) throw Error("{}: {} % 0", context_, value_);
    return CheckedSize(value_ % b.value_, context_);
  }

  template <std::integral T>
  constexpr CheckedSize operator+(T b) const {
    return *this + CheckedSize(b, context_);
  }
  template <std::integral T>
  constexpr CheckedSize operator*(T b) const {
    return *this * CheckedSize(b, context_);
  }
  template <std::integral T>
  constexpr CheckedSize operator-(T b) const {
    return *this - CheckedSize(b, context_);
  }
  template <std::integral T>
  constexpr CheckedSize operator/(T b) const {
    return *this / CheckedSize(b, context_);
  }
  template <std::integral T>
  constexpr CheckedSize operator%(T b) const {
    return *this % CheckedSize(b, context_);
  }
  template <class T>
  constexpr CheckedSize& operator+=(T b) {
    return *this = *this + b;
  }
  template <class T>
  constexpr CheckedSize& operator*=(T b) {
    return *this = *this * b;
  }
  template <class T>
  constexpr CheckedSize& operator-=(T b) {
    return *this = *this - b;
  }

  // The smallest multiple of `step` that is not less than this; a `step` of 0 throws.
  constexpr CheckedSize round_up(uint64_t step) const {
    const CheckedSize rest = *this % step;
    return rest.value_ == 0 ? *this : *this + (step - rest.value_);
  }

  constexpr bool operator==(const CheckedSize& b) const { return value_ == b.value_; }
  constexpr std::strong_ordering operator<=>(const CheckedSize& b) const { return value_ <=> b.value_; }

 private:
  uint64_t value_ = 0;
  std::string_view context_;
};

}  // namespace ingot
