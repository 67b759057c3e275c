// CHECK(cond, "format", values…): a programmer's error. Prints file, line, condition and values, then
// aborts; stays in release builds. Never used to validate files or requests: those throw Error.
#pragma once

#ifdef __CUDACC__
#define FMT_USE_CONSTEXPR 1  // fmt 9 turns it off for nvcc, and its consteval constructors fail then
#endif
#include <fmt/format.h>

#include <string>

namespace ingot {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace ingot

#define CHECK(condition, ...)                                                               \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] {                                                        \
      ::ingot::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                       \
  } while (false)
