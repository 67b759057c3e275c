// Who may stay when more connect than there are places. Only the io thread.
//
// A connection that waits for its client (for a handshake, a head, or the end of what nobody will read) is idle, and
// the longest idle one gives way to a new one; before it, the oldest body or reader of a key that has more than half of
// all places. Where none is idle, the oldest of the bodies and readers of whoever has so many of them that a quarter of
// the places is theirs (all who have no key are one); where nobody has, the slowest body or reader, once it has had its
// time. Where nobody can give way, the new one gets one of the places beyond the limit: it is told so, but a probe is
// answered there. The longest idle of these gives way in its turn, so that a probe always finds one.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <list>
#include <string>

#include "base/seeded_hash.h"

namespace ingot {

class HttpConnection;
struct HttpCore;

// The address of a client, as far as it is one client's: of IPv6 the network of 64 bits, which anybody has whole.
// Empty: a Unix socket's.
std::string client_address(const sockaddr_storage& address);

class HttpPlaces {
 public:
  enum class Place : unsigned char {
    kOrdinary,
    kBeyond,  // for a probe, or to be told that there are too many
    kNone,
  };
  using Idle = std::list<HttpConnection*>;

  // `of_address`: as HttpLimits::address_connections.
  HttpPlaces(int ordinary, int beyond, int of_address) : limits_{ordinary, beyond}, of_address_(of_address) {}

  // A place for a connection of this address; others may be closed for it.
  Place find(HttpCore& core, const std::string& address);

  // Of connections, in pairs.
  void enter(Place place, const std::string& address);
  void leave(Place place, const std::string& address);
  // It begins to wait for its client; from here on it is the shortest idle one.
  Idle::iterator rest(HttpConnection* connection, Place place);
  void wake(Idle::iterator at, Place place);

 private:
  static constexpr size_t index(Place place) { return place == Place::kOrdinary ? 0 : 1; }
  bool give_way(HttpCore& core, Place place, const std::string* address);
  struct Crowd {
    HttpConnection* of_half = nullptr;     // goes first
    HttpConnection* of_quarter = nullptr;  // goes where nobody is idle
  };
  Crowd crowding(const HttpCore& core) const;

  const int limits_[2];
  const int of_address_;
  int taken_[2] = {};
  Idle idle_[2];
  SeededMap<int> addresses_;
};

}  // namespace ingot
