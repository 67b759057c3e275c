// API keys: who asks. What a tenant may do is in tenant.h and rights.h, the file's form in key_file.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/http.h"
#include "serve/tenants/key_file.h"
#include "serve/tenants/tenant.h"

namespace ingot {

struct KeyOptions {
  std::string file = {};                      // as key_file.h has it; empty: none
  std::vector<std::string> keys = {};         // further ones, of the environment or the command line; named "default"
  std::vector<std::string_view> routes = {};  // that the file may name; empty: any
  std::function<double()> now = {};           // seconds, for tests; the steady clock where empty
};

// A key that is or was in force.
struct ApiKey {
  const std::shared_ptr<Tenant> tenant;
  std::atomic<bool> revoked{false};  // the file has it no more
};

// Any thread. A key is kept as a salted digest and compared in constant time; keys of the same name share its limits,
// so that a key can be replaced while both work.
class Keys {
 public:
  // Reads the file. Throws Error with the line of what is wrong.
  explicit Keys(KeyOptions options = {});

  // Whether requests need a key.
  bool required() const { return required_; }
  // The key that the request carries (Authorization: Bearer, or X-Api-Key); none: it has none of ours.
  std::shared_ptr<const ApiKey> find(const HttpHead& head) const;
  // Its tenant's name.
  std::optional<std::string> name_of(const HttpHead& head) const;
  // Who asks where no key is needed: a tenant without a name and without limits.
  std::shared_ptr<const ApiKey> nobody() const { return nobody_; }

  // Reads the file again where it has changed since, or `anyway`. True: new keys are in force, and those that the file
  // has no more are revoked. Throws Error, and keeps the old keys, where the file is wrong or gone. Does file input:
  // not for the io thread.
  bool reload(bool anyway = false);

  const UsageBook& book() const { return book_; }

 private:
  using Digest = std::array<uint8_t, 32>;
  struct Entry {
    std::shared_ptr<ApiKey> key;
    Digest digest;
  };
  using Entries = std::vector<Entry>;
  struct Stamp {  // of the file that was read
    int64_t seconds = 0, nanoseconds = 0, bytes = 0;
    uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };

  KeyTable read() const;
  Digest digest(std::string_view key) const;
  static Stamp stamp_of(const std::string& path);
  void take(const KeyTable& table);
  std::shared_ptr<const Entries> entries() const;

  const KeyOptions options_;
  const std::array<uint8_t, 32> salt_;
  const bool required_;
  UsageBook book_;
  const std::shared_ptr<const ApiKey> nobody_;

  std::mutex reload_mutex_;  // one reader of the file at a time; guards the two below
  std::map<std::string, std::shared_ptr<Tenant>> tenants_;
  Stamp stamp_;
  mutable std::mutex mutex_;  // guards the one below
  std::shared_ptr<const Entries> entries_;
};

}  // namespace ingot
