#include "serve/tenants/usage.h"

#include <algorithm>

namespace ingot {

UsageNumbers& UsageNumbers::operator+=(const UsageNumbers& other) {
  requests += other.requests;
  limited += other.limited;
  cancelled += other.cancelled;
  timeouts += other.timeouts;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  completion_tokens += other.completion_tokens;
  tokenizer_tokens += other.tokenizer_tokens;
  return *this;
}

JsonObject usage_json(const UsageNumbers& n) {
  return {{"requests", n.requests},
          {"limited", n.limited},
          {"cancelled", n.cancelled},
          {"timeouts", n.timeouts},
          {"prompt_tokens", n.prompt_tokens},
          {"cached_tokens", n.cached_tokens},
          {"completion_tokens", n.completion_tokens},
          {"tokenizer_tokens", n.tokenizer_tokens}};
}

UsageNumbers UsageCounters::read() const {
  return {.requests = requests,
          .limited = limited,
          .cancelled = cancelled,
          .timeouts = timeouts,
          .prompt_tokens = prompt_tokens,
          .cached_tokens = cached_tokens,
          .completion_tokens = completion_tokens,
          .tokenizer_tokens = tokenizer_tokens};
}

std::shared_ptr<UsageCounters> UsageBook::of(const std::string& name) {
  if (name.empty()) return nobody_;
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(names_, name, [](const auto& entry) -> const std::string& { return entry.first; });
  if (at != names_.end()) return at->second;
  if (names_.size() < kMaxNames) return names_.emplace_back(name, std::make_shared<UsageCounters>()).second;
  if (!others_) others_ = std::make_shared<UsageCounters>();
  return others_;
}

std::optional<TenantUsage> UsageBook::find(const std::string& name) const {
  if (name.empty()) return std::nullopt;
  std::vector<TenantUsage> all = tenants();
  for (TenantUsage& tenant : all) {
    if (tenant.name == name) return std::move(tenant);
  }
  if (all.empty() || all.back().name != kOthers) return std::nullopt;
  return std::move(all.back());
}

std::vector<TenantUsage> UsageBook::tenants() const {
  const std::lock_guard lock(mutex_);
  std::vector<TenantUsage> list;
  for (const auto& [name, counters] : names_) {
    list.push_back({.name = name, .numbers = counters->read(), .active = counters->active});
  }
  if (others_) list.push_back({.name = kOthers, .numbers = others_->read(), .active = others_->active});
  return list;
}

UsageNumbers UsageBook::total() const {
  UsageNumbers sum = nobody_->read();
  for (const TenantUsage& tenant : tenants()) sum += tenant.numbers;
  return sum;
}

}  // namespace ingot
