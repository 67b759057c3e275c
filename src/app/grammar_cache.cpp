#include "app/grammar_cache.h"

#include <algorithm>
#include <utility>

namespace ingot {

std::shared_ptr<const grammar::Compiled> GrammarCache::find(const std::string& tenant, const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto of = tenants_.find(tenant);
  if (of == tenants_.end()) return nullptr;
  const auto found = of->second.by_key.find(key);
  if (found == of->second.by_key.end()) return nullptr;
  of->second.order.splice(of->second.order.begin(), of->second.order, found->second);
  return found->second->compiled;
}

void GrammarCache::keep(const std::string& tenant, const std::string& key,
                        std::shared_ptr<const grammar::Compiled> compiled) {
  const std::lock_guard lock(mutex_);
  Tenant& of = tenants_[tenant];
  if (of.by_key.contains(key)) return;  // two have compiled it at the same time
  of.order.push_front({.key = key, .compiled = std::move(compiled)});
  of.by_key.emplace(of.order.front().key, of.order.begin());
  measure();
  make_room();
}

// They grow while they are used.
void GrammarCache::measure() {
  bytes_ = 0;
  for (auto& [name, tenant] : tenants_) {
    tenant.bytes = 0;
    for (Entry& entry : tenant.order) {
      entry.bytes = sizeof(Entry) + entry.key.size() + entry.compiled->memory();
      tenant.bytes += entry.bytes;
    }
    bytes_ += tenant.bytes;
  }
}

void GrammarCache::make_room() {
  while (bytes_ > most_) {
    const auto most = std::ranges::max_element(tenants_, {}, [](const auto& tenant) { return tenant.second.bytes; });
    Tenant& tenant = most->second;
    const size_t bytes = tenant.order.back().bytes;
    tenant.by_key.erase(tenant.order.back().key);
    tenant.order.pop_back();
    tenant.bytes -= bytes;
    bytes_ -= bytes;
    if (tenant.order.empty()) tenants_.erase(most);
  }
}

size_t GrammarCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

size_t GrammarCache::entries() const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [name, tenant] : tenants_) count += tenant.order.size();
  return count;
}

}  // namespace ingot
