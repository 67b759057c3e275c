#include "serve/responses/response_id.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>

#include "base/error.h"

namespace ingot {

std::string unguessable_id(std::string_view prefix) {
  std::array<unsigned char, 16> bytes{};
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t more = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (more < 0 && errno != EINTR) throw Error("[serve] the system gives no random bytes");
    if (more > 0) filled += static_cast<size_t>(more);
  }
  std::string id(prefix);
  for (const unsigned char byte : bytes) fmt::format_to(std::back_inserter(id), "{:02x}", byte);
  return id;
}

}  // namespace ingot
