// What processes that share a model tell each other before the first step, as it is read: who speaks may be another
// program, or a damaged one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ingot {

// Of the facts of a rank, which are lines "what: value".
inline constexpr size_t kMostFacts = 4096;

// Where two ranks differ, of printable characters. The values begin with a space, or are empty.
struct FactDifference {
  std::string what, theirs, own;
};
// Of the first line that is not the same; none where all of both are. A line that only one has is " not told" by the
// other.
std::optional<FactDifference> first_difference(std::string_view own, std::string_view theirs);

// The memory of the cache (EngineConfig::kv_bytes) that rank 0 says. Throws Error where it says none.
int64_t read_kv_bytes(std::span<const std::byte> message);

}  // namespace ingot
