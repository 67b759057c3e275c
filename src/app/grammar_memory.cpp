#include "app/grammar_memory.h"

#include <algorithm>

namespace ingot {

GrammarMemory::Taken GrammarMemory::take(const std::string& tenant, size_t bytes, size_t leave) {
  const std::lock_guard lock(mutex_);
  const size_t free = most_ - std::min(bytes_, most_);
  if (bytes > free || leave > free - bytes) return Taken::kFull;
  const auto at = tenants_.find(tenant);
  const size_t own = at == tenants_.end() ? 0 : at->second;
  if (own > free - bytes) return Taken::kShare;
  tenants_[tenant] += bytes;
  bytes_ += bytes;
  return Taken::kYes;
}

void GrammarMemory::give(const std::string& tenant, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = tenants_.find(tenant);
  if (at == tenants_.end()) return;
  at->second -= bytes;
  bytes_ -= bytes;
  if (at->second == 0) tenants_.erase(at);
}

size_t GrammarMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

size_t GrammarMemory::bytes(const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  const auto at = tenants_.find(tenant);
  return at == tenants_.end() ? 0 : at->second;
}

}  // namespace ingot
