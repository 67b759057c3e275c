// The card that each rank shows the others when they meet: a message of fixed layout, without pointers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ingot {

struct RankCard {
  std::string host;
  std::string place;  // the machine and the numbers of its processes: equal where pids mean the same
  std::array<uint64_t, 16> cores{};
  int64_t pid = 0;
};

inline constexpr size_t kHostBytes = 64, kPlaceBytes = 128;
inline constexpr size_t kCardBytes = kHostBytes + kPlaceBytes + sizeof(RankCard::cores) + sizeof(RankCard::pid);
using CardBytes = std::array<std::byte, kCardBytes>;

// REQUIRES: printable texts, shorter than their bytes.
CardBytes write_card(const RankCard& card);
// What `rank` has sent. Throws Error where write_card() makes no such card of a process.
RankCard read_card(std::span<const std::byte> message, int rank);

}  // namespace ingot
