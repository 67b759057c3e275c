#include "app/rank_facts.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "engine/config.h"

namespace ingot {
namespace {

// With its end, so that a text which lacks it differs. Empty behind the last.
std::string_view next_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n') + 1);
  const std::string_view found = line.empty() ? rest : line;
  rest.remove_prefix(found.size());
  return found;
}

std::string shown(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return printable(text);
}

std::string_view key_of(std::string_view line) { return line.substr(0, line.find(':')); }

// What a line that has `key` says of it.
std::string value_of(std::string_view line, std::string_view key) {
  const bool told = line.size() > key.size() && line.starts_with(key) && line[key.size()] == ':';
  return told ? shown(line.substr(key.size() + 1)) : " not told";
}

}  // namespace

std::optional<FactDifference> first_difference(std::string_view own, std::string_view theirs) {
  while (!own.empty() || !theirs.empty()) {
    const std::string_view ours = next_line(own), other = next_line(theirs);
    if (ours == other) continue;
    const std::string_view key = key_of(ours.empty() ? other : ours);
    const std::string what = shown(key);
    return FactDifference{what.empty() ? "a line" : what, value_of(other, key), value_of(ours, key)};
  }
  return std::nullopt;
}

int64_t read_kv_bytes(std::span<const std::byte> message) {
  constexpr int64_t kMost = int64_t{1} << 50;  // as --kv-memory
  int64_t bytes = 0;
  if (message.size() != sizeof(bytes))
    throw Error("[ranks] bytes of the cache: a message of {} bytes, not {}", message.size(), sizeof(bytes));
  std::memcpy(&bytes, message.data(), sizeof(bytes));
  if (bytes < 0 || (bytes > kMost && bytes != kAllFreeBytes))
    throw Error("[ranks] bytes of the cache: {} is not within 0 and {}", bytes, kMost);
  return bytes;
}

}  // namespace ingot
