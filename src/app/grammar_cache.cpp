#include "app/grammar_cache.h"

#include <algorithm>

namespace ingot {
namespace {

// What a tenant's grammars, their masks and their matchers take.
class TenantAccount : public grammar::MemoryAccount {
 public:
  TenantAccount(std::string tenant, std::weak_ptr<GrammarCache> cache)
      : tenant_(std::move(tenant)), cache_(std::move(cache)) {}

  void change(size_t before, size_t now) override {
    const std::shared_ptr<GrammarCache> cache = cache_.lock();
    if (!cache) return;  // nobody counts any more
    if (now <= before) return cache->give(tenant_, before - now);
    if (cache->take(tenant_, now - before)) return;
    throw grammar::LimitError("[grammar] the grammars of this server take as much memory as they may");
  }

 private:
  const std::string tenant_;
  const std::weak_ptr<GrammarCache> cache_;  // which has grammars that hold this
};

}  // namespace

void GrammarCache::refresh(Tenant& tenant, Entry& entry) {
  const size_t bytes = sizeof(Entry) + entry.key.size() + entry.compiled->memory();
  tenant.bytes += bytes - entry.bytes;
  bytes_ += bytes - entry.bytes;
  entry.bytes = bytes;
}

void GrammarCache::remove(Tenants::iterator tenant, std::list<Entry>::iterator entry, Gone& gone) {
  Tenant& of = tenant->second;
  of.bytes -= entry->bytes;
  bytes_ -= entry->bytes;
  gone.push_back(std::move(entry->compiled));
  of.by_key.erase(entry->key);
  of.order.erase(entry);
  if (of.order.empty()) tenants_.erase(tenant);
}

std::shared_ptr<const grammar::Compiled> GrammarCache::find(const std::string& tenant, const std::string& key) {
  Gone gone;
  const std::lock_guard lock(mutex_);
  const auto of = tenants_.find(tenant);
  if (of == tenants_.end()) return nullptr;
  const auto found = of->second.by_key.find(key);
  if (found == of->second.by_key.end()) return nullptr;
  const auto entry = found->second;
  if (entry->compiled->worn()) {
    remove(of, entry, gone);
    return nullptr;
  }
  refresh(of->second, *entry);
  of->second.order.splice(of->second.order.begin(), of->second.order, entry);
  return entry->compiled;
}

void GrammarCache::keep(const std::string& tenant, const std::string& key,
                        std::shared_ptr<const grammar::Compiled> compiled) {
  Gone gone;
  const std::lock_guard lock(mutex_);
  Tenant& of = tenants_[tenant];
  if (of.by_key.contains(key)) return;  // two have compiled it at the same time
  of.masks = compiled->masks();
  of.order.push_front({.key = key, .compiled = std::move(compiled)});
  of.by_key.emplace(of.order.front().key, of.order.begin());
  refresh(of, of.order.front());
  make_room(gone);
}

grammar::GrammarOwner GrammarCache::owner(const std::string& tenant) {
  auto account = std::make_shared<TenantAccount>(tenant, weak_from_this());
  {
    const std::lock_guard lock(mutex_);
    if (const auto of = tenants_.find(tenant); of != tenants_.end()) {
      if (std::shared_ptr<grammar::MaskStore> known = of->second.masks.lock()) return {known, std::move(account)};
    }
  }
  return {std::make_shared<grammar::MaskStore>(kMaskBytes, account), account};
}

GrammarCache::Tenants::iterator GrammarCache::largest() {
  return std::ranges::max_element(tenants_, {}, [](const auto& tenant) { return tenant.second.bytes; });
}

void GrammarCache::make_room(Gone& gone) {
  while (bytes_ > most_) {
    const auto most = largest();
    remove(most, std::prev(most->second.order.end()), gone);
  }
}

// Of those that no answer uses, which alone give memory back, the one that was last asked for the longest time ago: of
// this tenant, or, where that is the end, of the largest that has one.
bool GrammarCache::drop_unused(Tenants::iterator tenant, Gone& gone) {
  const auto unused = [](const Entry& entry) { return entry.compiled.use_count() == 1; };
  const auto none = tenants_.end();
  auto from = none;
  for (auto at = tenants_.begin(); at != tenants_.end(); ++at) {
    const bool larger = from == none || at->second.bytes > from->second.bytes;
    const bool counts = tenant == none ? larger : at == tenant;
    if (counts && std::ranges::any_of(at->second.order, unused)) from = at;
  }
  if (from == tenants_.end()) return false;
  std::list<Entry>& order = from->second.order;
  remove(from, std::prev(std::find_if(order.rbegin(), order.rend(), unused).base()), gone);
  return true;
}

bool GrammarCache::take(const std::string& tenant, size_t bytes, size_t leave) {
  while (true) {
    const GrammarMemory::Taken taken = memory_.take(tenant, bytes, leave);
    if (taken == GrammarMemory::Taken::kYes) return true;
    Gone gone;
    const std::lock_guard lock(mutex_);
    const auto own = tenants_.find(tenant);
    if (taken == GrammarMemory::Taken::kShare && own == tenants_.end()) return false;
    if (!drop_unused(taken == GrammarMemory::Taken::kShare ? own : tenants_.end(), gone)) return false;
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
