// One tenant while the server runs: its rights, its places and what it may still use this minute.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/api/api_error.h"
#include "serve/http/http.h"
#include "serve/tenants/minute_budget.h"
#include "serve/tenants/rights.h"
#include "serve/tenants/usage.h"

namespace ingot {

// Any thread. Lives on while a request of it does, though the key file has it no more.
class Tenant {
 public:
  // `now`: seconds of a clock that never goes back.
  Tenant(std::string name, const TenantRights& rights, std::shared_ptr<UsageCounters> use, std::function<double()> now);

  const std::string& name() const { return name_; }
  std::shared_ptr<const TenantRights> rights() const;
  // The key file has others now. A request keeps those that it came with.
  void set(const TenantRights& rights);
  UsageCounters& use() const { return *use_; }

  // The 429 of a request that would come now; takes nothing. Counted as `limited`.
  std::optional<ApiError> refusal() const;
  // The same for its tokens of the minute alone: of a request that has a place.
  std::optional<ApiError> spent() const;
  // Takes a place for one request; a refusal takes none. leave() gives it back.
  std::optional<ApiError> enter();
  void leave();
  // Tokens that a request has cost. The next one waits for what is taken beyond the limit.
  void charge(int64_t tokens);

  // How its limits by the minute stand, as OpenAI's clients read it: x-ratelimit-{limit,remaining,reset}-requests and
  // -tokens. Empty where it has none.
  HttpHeaders limit_headers() const;

 private:
  std::optional<ApiError> refusal_now(double now) const;
  std::optional<ApiError> spent_now(double now) const;

  const std::string name_;
  const std::shared_ptr<UsageCounters> use_;
  const std::function<double()> now_;
  mutable std::mutex mutex_;  // guards all below
  std::shared_ptr<const TenantRights> rights_;
  MinuteBudget requests_, tokens_;
  int active_ = 0;
};

// "850ms", "31s", "6m0s".
std::string reset_text(double seconds);

}  // namespace ingot
