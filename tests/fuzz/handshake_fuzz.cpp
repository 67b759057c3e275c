// Fuzz target: what ranks that are processes tell each other before the first step and of their counts. The first byte
// says which message the others are.
// coverage: src/app/rank_facts.cpp src/comm/rank_card.cpp src/comm/read_numbers.cpp
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "app/rank_facts.h"
#include "base/error.h"
#include "comm/rank_card.h"
#include "comm/read_numbers.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// Fit to stand in one line of an error.
bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c <= 0x7e; });
}

void compare_facts(std::string_view theirs) {
  static const std::string own = "the program: 0a1b\nthe model: llama, 7 bytes\n--ctx: 4096\n--no-fuse:\n";
  const auto found = ingot::first_difference(own, theirs);
  require(found.has_value() == (theirs != own));
  if (found) {
    require(!found->what.empty() && is_printable(found->what));
    require(is_printable(found->theirs) && is_printable(found->own));
  }
  // Who is compared with whom changes the sides, and not whether they differ.
  require(ingot::first_difference(theirs, own).has_value() == found.has_value());
  require(!ingot::first_difference(theirs, theirs));
}

void read_card(std::span<const std::byte> message) {
  const ingot::RankCard card = ingot::read_card(message, 1);
  require(is_printable(card.host) && is_printable(card.place) && card.pid > 0);
  require(std::ranges::equal(ingot::write_card(card), message));
}

void read_counts(std::span<const std::byte> message) {
  const ingot::RankCounts counts = ingot::read_counts(message, 1);
  require(counts.steps >= 0 && counts.step_ns >= 0 && counts.wait_ns >= 0 && counts.collective_ns >= 0);
  require(std::ranges::all_of(counts.bytes, [](int64_t bytes) { return bytes >= 0; }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> message = std::as_bytes(std::span(data, size)).subspan(1);
  try {
    switch (data[0] % 4) {
      case 0:
        compare_facts({reinterpret_cast<const char*>(message.data()), message.size()});
        break;
      case 1:
        read_card(message);
        break;
      case 2:
        require(ingot::read_kv_bytes(message) >= 0);
        break;
      default:
        read_counts(message);
    }
  } catch (const ingot::Error& error) {
    require(is_printable(error.what()));
  }
  return 0;
}
