#include "comm/rank_card.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "base/printable.h"

namespace ingot {
namespace {

std::byte* put(const std::string& text, size_t room, std::byte* at) {
  CHECK(text.size() < room, "{} bytes for a text of {}", room, text.size());
  std::memcpy(at, text.data(), text.size());
  return at + room;
}

// Characters up to a zero, and nothing behind it.
std::string text_of(std::span<const std::byte> bytes, const char* what, int rank) {
  const auto end = std::ranges::find(bytes, std::byte{0});
  std::string text(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(end - bytes.begin()));
  if (end == bytes.end() || !std::ranges::all_of(text, is_printable) ||
      std::any_of(end, bytes.end(), [](std::byte b) { return b != std::byte{0}; }))
    throw Error("[mpi] the card of rank {}: its {} is no text", rank, what);
  return text;
}

}  // namespace

CardBytes write_card(const RankCard& card) {
  CardBytes bytes{};
  std::byte* at = put(card.host, kHostBytes, bytes.data());
  at = put(card.place, kPlaceBytes, at);
  std::memcpy(at, card.cores.data(), sizeof(card.cores));
  std::memcpy(at + sizeof(card.cores), &card.pid, sizeof(card.pid));
  return bytes;
}

RankCard read_card(std::span<const std::byte> message, int rank) {
  if (message.size() != kCardBytes)
    throw Error("[mpi] the card of rank {}: {} bytes, not {}", rank, message.size(), kCardBytes);
  RankCard card{.host = text_of(message.first(kHostBytes), "host", rank),
                .place = text_of(message.subspan(kHostBytes, kPlaceBytes), "machine", rank)};
  const std::byte* const at = message.data() + kHostBytes + kPlaceBytes;
  std::memcpy(card.cores.data(), at, sizeof(card.cores));
  std::memcpy(&card.pid, at + sizeof(card.cores), sizeof(card.pid));
  if (card.pid <= 0 || card.pid > std::numeric_limits<int32_t>::max())
    throw Error("[mpi] the card of rank {}: {} is no process", rank, card.pid);
  return card;
}

}  // namespace ingot
