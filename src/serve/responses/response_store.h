// Answers of /v1/responses that are kept for a while, in memory, each for the tenant that asked.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/seeded_hash.h"
#include "serve/tenants/shared_room.h"

namespace ingot {

struct KeptResponse {
  std::string response;  // its object
  std::string input;     // the items before it, a JSON array
  std::string output;    // its own

  // All of them: what a request that goes on from it begins with.
  std::string conversation() const;
};

// Within a number of bytes and for an hour, the oldest out first. Of n tenants that have any, none has less than one
// n-th: beyond the bytes, the one with most of them loses its oldest. Any thread.
class ResponseStore {
 public:
  static constexpr double kSeconds = 3600;

  // 0 bytes: nothing is kept. `now`: seconds, for tests; the steady clock where empty.
  explicit ResponseStore(size_t bytes = 0, std::function<double()> now = {});

  bool on() const { return most_ > 0; }
  size_t most() const { return most_; }

  // Room for what an answer that is being made will keep, until the value goes; none where all such would take more
  // than the bytes, or the tenant holds more already than would be left for others: it is not kept.
  std::shared_ptr<void> hold(const std::string& tenant, size_t bytes) { return room_.hold(tenant, bytes); }

  // False: it is more than the tenant's share.
  bool put(const std::string& tenant, const std::string& id, KeptResponse response);
  // None: it was not kept, is too old, has given way, or is another tenant's.
  std::shared_ptr<const KeptResponse> get(const std::string& tenant, const std::string& id);
  bool erase(const std::string& tenant, const std::string& id);

  size_t bytes() const;
  size_t count() const;

 private:
  struct Entry {
    std::string id;
    std::shared_ptr<const KeptResponse> response;
    size_t bytes = 0;
    double until = 0;
  };
  struct Shelf {
    std::list<Entry> entries;  // the oldest first
    SeededMap<std::list<Entry>::iterator> by_id;
    size_t bytes = 0;
  };
  using Shelves = std::map<std::string, Shelf>;

  void drop_old();
  void drop(Shelves::iterator shelf, std::list<Entry>::iterator entry);
  void drop_oldest_of_largest();

  const size_t most_;
  SharedRoom room_;  // of what is being made
  const std::function<double()> now_;
  mutable std::mutex mutex_;  // guards all below
  Shelves shelves_;
  size_t bytes_ = 0, count_ = 0;
};

}  // namespace ingot
