// What each tenant has used since the server began, for /v1/usage and /metrics.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/json.h"

namespace ingot {

struct UsageNumbers {
  int64_t requests = 0;           // that were worked on
  int64_t limited = 0;            // answered with 429
  int64_t cancelled = 0;          // the client left first
  int64_t timeouts = 0;           // ended by their deadline
  int64_t prompt_tokens = 0;      // of prompts that the engine took
  int64_t cached_tokens = 0;      // of them, found in the prefix cache
  int64_t completion_tokens = 0;  // of answers
  int64_t tokenizer_tokens = 0;   // of /tokenize, /detokenize and count_tokens

  UsageNumbers& operator+=(const UsageNumbers& other);
};

JsonObject usage_json(const UsageNumbers& numbers);

// Any thread; never waits.
struct UsageCounters {
  std::atomic<int64_t> requests{0}, limited{0}, cancelled{0}, timeouts{0};
  std::atomic<int64_t> prompt_tokens{0}, cached_tokens{0}, completion_tokens{0}, tokenizer_tokens{0};
  std::atomic<int> active{0};  // requests under way

  UsageNumbers read() const;
};

struct TenantUsage {
  std::string name;
  UsageNumbers numbers;
  int active = 0;
};

// Any thread. The first hundred names are told apart, whatever comes and goes in the key file: so many series, and
// none whose numbers fall.
class UsageBook {
 public:
  static constexpr size_t kMaxNames = 100;
  static constexpr const char* kOthers = "(others)";  // no name: those have no brackets

  // The counters of this name; those that the rest shares where a hundred names have theirs. "": who has no name.
  std::shared_ptr<UsageCounters> of(const std::string& name);
  // As of() has it: under kOthers those of all that share them. None for "".
  std::optional<TenantUsage> find(const std::string& name) const;
  // By name, in the order they came; the rest last, where there is any.
  std::vector<TenantUsage> tenants() const;
  UsageNumbers total() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, std::shared_ptr<UsageCounters>>> names_;
  const std::shared_ptr<UsageCounters> nobody_ = std::make_shared<UsageCounters>();
  std::shared_ptr<UsageCounters> others_;
};

}  // namespace ingot
