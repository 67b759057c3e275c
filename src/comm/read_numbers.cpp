#include "comm/read_numbers.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace ingot {

void read_numbers(std::span<const std::byte> message, std::string_view what, int64_t low, int64_t high,
                  std::span<int64_t> into) {
  if (message.size() != into.size_bytes())
    throw Error("[ranks] {}: a message of {} bytes, not {}", what, message.size(), into.size_bytes());
  std::memcpy(into.data(), message.data(), message.size());
  for (const int64_t value : into)
    if (value < low || value > high) throw Error("[ranks] {}: {} is not within {} and {}", what, value, low, high);
}

RankCounts read_counts(std::span<const std::byte> message, int rank) {
  constexpr size_t kNumbers = sizeof(RankCounts) / sizeof(int64_t);
  std::array<int64_t, kNumbers> numbers{};
  read_numbers(message, fmt::format("what rank {} has counted", rank), 0, std::numeric_limits<int64_t>::max(), numbers);
  return std::bit_cast<RankCounts>(numbers);
}

}  // namespace ingot
