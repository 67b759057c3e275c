#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ingot {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  fmt::print(stderr, "{}:{}: CHECK({}) failed{}{}\n", file, line, condition, message.empty() ? "" : ": ", message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace ingot
