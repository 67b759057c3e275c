#include "serve/tenants/tenant.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace ingot {

Tenant::Tenant(std::string name, const TenantRights& rights, std::shared_ptr<UsageCounters> use,
               std::function<double()> now)
    : name_(std::move(name)), use_(std::move(use)), now_(std::move(now)) {
  set(rights);
}

std::shared_ptr<const TenantRights> Tenant::rights() const {
  const std::lock_guard lock(mutex_);
  return rights_;
}

void Tenant::set(const TenantRights& rights) {
  auto fresh = std::make_shared<const TenantRights>(rights);
  const double now = now_();
  const std::lock_guard lock(mutex_);
  rights_ = std::move(fresh);
  requests_.set(rights.requests_per_minute, now);
  tokens_.set(rights.tokens_per_minute, now);
}

std::optional<ApiError> Tenant::refusal_now(double now) const {
  std::optional<ApiError> refused;
  if (rights_->concurrency > 0 && active_ >= rights_->concurrency) {
    refused = key_limit("this key has as many requests under way as it may", 1);
  } else if (const double wait = requests_.seconds_until(1, now); wait > 0) {
    refused = key_limit("this key has made its requests of this minute", wait);
  } else {
    return spent_now(now);
  }
  if (refused) use_->limited.fetch_add(1, std::memory_order_relaxed);
  return refused;
}

std::optional<ApiError> Tenant::spent_now(double now) const {
  const double rest = tokens_.seconds_until(1, now);
  if (rest <= 0) return std::nullopt;
  use_->limited.fetch_add(1, std::memory_order_relaxed);
  return key_limit("this key has used its tokens of this minute", rest);
}

std::optional<ApiError> Tenant::spent() const {
  const double now = now_();
  const std::lock_guard lock(mutex_);
  return spent_now(now);
}

std::optional<ApiError> Tenant::refusal() const {
  const double now = now_();
  const std::lock_guard lock(mutex_);
  return refusal_now(now);
}

std::optional<ApiError> Tenant::enter() {
  const double now = now_();
  const std::lock_guard lock(mutex_);
  if (std::optional<ApiError> refused = refusal_now(now)) return refused;
  requests_.take(1, now);
  ++active_;
  use_->active.fetch_add(1, std::memory_order_relaxed);
  return std::nullopt;
}

void Tenant::leave() {
  const std::lock_guard lock(mutex_);
  --active_;
  use_->active.fetch_sub(1, std::memory_order_relaxed);
}

void Tenant::charge(int64_t tokens) {
  const double now = now_();
  const std::lock_guard lock(mutex_);
  tokens_.take(static_cast<double>(tokens), now);
}

HttpHeaders Tenant::limit_headers() const {
  const double now = now_();
  const std::lock_guard lock(mutex_);
  HttpHeaders headers;
  const auto add = [&](const char* what, const MinuteBudget& budget) {
    if (budget.per_minute() == 0) return;
    headers.emplace_back(fmt::format("x-ratelimit-limit-{}", what), std::to_string(budget.per_minute()));
    headers.emplace_back(fmt::format("x-ratelimit-remaining-{}", what), std::to_string(budget.left(now)));
    headers.emplace_back(fmt::format("x-ratelimit-reset-{}", what), reset_text(budget.seconds_until_full(now)));
  };
  add("requests", requests_);
  add("tokens", tokens_);
  return headers;
}

std::string reset_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f}ms", std::ceil(seconds * 1000));
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  return whole < 60 ? fmt::format("{}s", whole) : fmt::format("{}m{}s", whole / 60, whole % 60);
}

}  // namespace ingot
