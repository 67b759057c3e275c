// API keys: who may call, how many requests at once and how many tokens a minute.
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

#include "serve/api/api_error.h"
#include "serve/http/http.h"

namespace ingot {

struct KeyLimits {
  int concurrency = 0;            // requests at once; 0: no limit
  int64_t tokens_per_minute = 0;  // of prompts and answers; 0: no limit
  bool operator==(const KeyLimits&) const = default;
};

struct KeyOptions {
  std::string file = {};               // lines `NAME KEY [concurrency=N] [tpm=N]`, # begins a comment; empty: none
  std::vector<std::string> keys = {};  // further ones, of the environment or the command line; named "default"
  std::function<double()> now = {};    // seconds, for tests; the steady clock where empty
};

// Any thread. A key is kept as a salted digest and compared in constant time; keys of the same name share its limits,
// so that a key can be replaced while both work.
class Keys {
 public:
  // Reads the file. Throws Error with the line of what is wrong.
  explicit Keys(KeyOptions options = {});

  // Whether requests need a key.
  bool required() const { return required_; }
  // The name of the key that the request carries (Authorization: Bearer, or X-Api-Key); none: it has none of ours.
  std::optional<std::string> name_of(const HttpHead& head) const;

  // Takes a place for one request; a refusal (429) takes none. leave() gives it back.
  std::optional<ApiError> enter(const std::string& name);
  void leave(const std::string& name);
  // Tokens that a request of this name has cost. The balance may go below nothing; the next request then waits for it.
  void charge(const std::string& name, int64_t tokens);

  // Reads the file again where it has changed since. True: new keys are in force. Throws Error, and keeps the old keys,
  // where the file is wrong or gone. Does file input: not for the io thread.
  bool reload();

 private:
  using Digest = std::array<uint8_t, 32>;
  struct Entry {
    std::string name;
    Digest digest;
  };
  struct Stamp {  // of the file that was read
    int64_t seconds = 0, nanoseconds = 0, bytes = 0;
    uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct Use {
    KeyLimits limits;
    int active = 0;
    double balance = 0;  // tokens
    double updated = 0;
  };
  struct Table {
    std::vector<Entry> entries;
    std::map<std::string, KeyLimits> limits;
  };

  Table read() const;
  Digest digest(std::string_view key) const;
  static Stamp stamp_of(const std::string& path);
  void refill(Use& use) const;
  void take(Table table);

  const KeyOptions options_;
  const std::array<uint8_t, 32> salt_;
  const bool required_;
  mutable std::mutex mutex_;  // guards all below
  std::shared_ptr<const std::vector<Entry>> entries_;
  std::map<std::string, Use> uses_;
  Stamp stamp_;
};

}  // namespace ingot
