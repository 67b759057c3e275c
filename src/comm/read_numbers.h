// Numbers that another rank sends, which may be another program or a damaged one: neither their count nor their range
// is taken on trust.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "comm/rank_meter.h"

namespace ingot {

// Fills `into` from a message of so many 64-bit numbers. Throws Error that names `what` where it has another length, or
// a number that is not within [low, high].
void read_numbers(std::span<const std::byte> message, std::string_view what, int64_t low, int64_t high,
                  std::span<int64_t> into);

// What a rank has counted, as it sends it: nothing is negative. Throws Error.
RankCounts read_counts(std::span<const std::byte> message, int rank);

}  // namespace ingot
