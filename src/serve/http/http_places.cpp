#include "serve/http/http_places.h"

#include <netinet/in.h>

#include <algorithm>
#include <string_view>

#include "base/seeded_hash.h"
#include "serve/http/http_connection.h"

namespace ingot {

namespace {

// Of whoever has most of something, the connection that takes longest for its part; none: nobody has any.
// `bytes(connection)`, `seconds(connection)`.
template <class Bytes, class Seconds>
HttpConnection* slowest_of_largest(const HttpCore& core, Bytes bytes, Seconds seconds) {
  SeededViewMap<size_t> of_payer;
  for (const HttpConnection* connection : core.connections) of_payer[connection->payer()] += bytes(*connection);
  const auto most = std::max_element(of_payer.begin(), of_payer.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  HttpConnection* slowest = nullptr;
  double longest = 0;
  for (HttpConnection* connection : core.connections) {
    if (connection->payer() != most->first || bytes(*connection) == 0) continue;
    const double taken = seconds(*connection);
    if (slowest && taken <= longest) continue;
    slowest = connection;
    longest = taken;
  }
  return slowest;
}

}  // namespace

void HttpCore::keep_room(size_t more) {
  while (body_bytes + more > limits.bodies_bytes) {
    const auto now = HttpConnection::Clock::now();
    HttpConnection* slowest = slowest_of_largest(
        *this, [](const HttpConnection& c) { return c.body_bytes(); },
        [now](const HttpConnection& c) { return c.body_seconds(now); });
    if (!slowest) return;
    slowest->drop_body();
  }
}

void HttpCore::keep_outbox() {
  while (outbox->over()) {
    const auto now = HttpConnection::Clock::now();
    HttpConnection* slowest = slowest_of_largest(
        *this, [](const HttpConnection& c) { return c.unsent_bytes(); },
        [now](const HttpConnection& c) { return c.unsent_seconds(now); });
    if (!slowest) return;
    slowest->cut_reader();
  }
}

std::string client_address(const sockaddr_storage& address) {
  const auto text = [](const void* bytes, size_t count) { return std::string(static_cast<const char*>(bytes), count); };
  if (address.ss_family == AF_INET) {
    return text(&reinterpret_cast<const sockaddr_in&>(address).sin_addr, sizeof(in_addr));
  }
  if (address.ss_family != AF_INET6) return {};
  const in6_addr& bytes = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) return text(bytes.s6_addr + 12, 4);
  return text(bytes.s6_addr, 8);
}

HttpPlaces::Place HttpPlaces::find(HttpCore& core, const std::string& address) {
  const auto same = addresses_.find(address);
  const bool crowded = of_address_ > 0 && !address.empty() && same != addresses_.end() && same->second >= of_address_;
  const bool full = taken_[index(Place::kOrdinary)] >= limits_[index(Place::kOrdinary)];
  if (!crowded && !full) return Place::kOrdinary;
  // An address at its limit makes its own room, and nobody else's.
  if (give_way(core, Place::kOrdinary, crowded ? &address : nullptr)) return Place::kOrdinary;
  if (taken_[index(Place::kBeyond)] < limits_[index(Place::kBeyond)]) return Place::kBeyond;
  return give_way(core, Place::kBeyond, nullptr) ? Place::kBeyond : Place::kNone;
}

bool HttpPlaces::give_way(HttpCore& core, Place place, const std::string* address) {
  const auto fits = [address](const HttpConnection* connection) {
    return address == nullptr || connection->address() == *address;
  };
  const Crowd crowd = place == Place::kOrdinary && address == nullptr ? crowding(core) : Crowd();
  HttpConnection* found = crowd.of_half;
  const Idle& idle = idle_[index(place)];
  const auto longest = std::find_if(idle.begin(), idle.end(), fits);
  if (found == nullptr && longest != idle.end()) found = *longest;
  if (found == nullptr) found = crowd.of_quarter;
  if (found == nullptr) {
    const auto now = HttpPace::Clock::now();
    double most = 0;
    for (HttpConnection* connection : core.connections) {
      const bool asked = connection->place() == place && fits(connection);
      const double slow = asked ? connection->seconds_slow(now) : 0;
      if (slow <= most) continue;
      most = slow;
      found = connection;
    }
  }
  if (found == nullptr) return false;
  ++core.counters.gave_way;
  found->give_way();
  return true;
}

// A payer's bodies and readers that are all young: who comes back as soon as one is cut would keep every place. The
// room for bodies and that for answers do not help where each is a few bytes. A payer with a name that has more than
// half of the places, whatever it does with them, gives up the oldest of its bodies and readers, however few these are,
// and before an idle connection goes: as fast as it connects again, who has just come would be idle the longest.
HttpPlaces::Crowd HttpPlaces::crowding(const HttpCore& core) const {
  struct Waits {
    int count = 0, held = 0;
    HttpConnection* oldest = nullptr;
  };
  const auto now = HttpPace::Clock::now();
  SeededViewMap<Waits> of_payer;
  for (HttpConnection* connection : core.connections) {
    if (connection->place() != Place::kOrdinary) continue;
    Waits& waits = of_payer[connection->payer()];
    ++waits.held;
    const double age = connection->wait_age(now);
    if (age <= 0) continue;
    ++waits.count;
    if (waits.oldest == nullptr || age > waits.oldest->wait_age(now)) waits.oldest = connection;
  }
  const int places = limits_[index(Place::kOrdinary)];
  Waits most;
  Crowd crowd;
  for (const auto& [payer, waits] : of_payer) {
    if (waits.count > most.count) most = waits;
    if (!payer.empty() && 2 * waits.held > places) crowd.of_half = waits.oldest;
  }
  if (4 * most.count > places) crowd.of_quarter = most.oldest;
  return crowd;
}

void HttpPlaces::enter(Place place, const std::string& address) {
  if (place == Place::kOrdinary && of_address_ > 0 && !address.empty()) ++addresses_[address];
  ++taken_[index(place)];
}

void HttpPlaces::leave(Place place, const std::string& address) {
  --taken_[index(place)];
  const auto at = place == Place::kOrdinary ? addresses_.find(address) : addresses_.end();
  if (at != addresses_.end() && --at->second == 0) addresses_.erase(at);
}

HttpPlaces::Idle::iterator HttpPlaces::rest(HttpConnection* connection, Place place) {
  Idle& idle = idle_[index(place)];
  return idle.insert(idle.end(), connection);
}

void HttpPlaces::wake(Idle::iterator at, Place place) { idle_[index(place)].erase(at); }

}  // namespace ingot
