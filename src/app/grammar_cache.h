// Compiled grammars by tenant and source, the least recently used of the largest tenant going first, within the memory
// for grammars of which they are a part. Tenants find their own alone: what one has asked for cannot be told from how
// long another's takes. Any thread.
//
// No grammar goes while the lock is held.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/grammar_memory.h"
#include "base/seeded_hash.h"
#include "grammar/account.h"
#include "grammar/compile.h"
#include "grammar/mask_store.h"

namespace ingot {

class GrammarCache : public std::enable_shared_from_this<GrammarCache> {
 public:
  // `bytes`: of all that are kept, as grammar::Compiled::memory() tells; 0: none is kept. `memory`: of these and of all
  // others.
  GrammarCache(size_t bytes, size_t memory) : most_(bytes), memory_(memory) {}

  // Null: there is none, or it is worn (grammar::Compiled::worn) and kept no more.
  std::shared_ptr<const grammar::Compiled> find(const std::string& tenant, const std::string& key);
  void keep(const std::string& tenant, const std::string& key, std::shared_ptr<const grammar::Compiled> compiled);
  // For the tenant's next grammar. What that takes is counted here, and outlives this.
  grammar::GrammarOwner owner(const std::string& tenant);

  // Takes of the memory. Kept grammars that no answer uses go for it: the tenant's own where it has its share, else of
  // the largest tenant. `leave`: bytes that must be free then. False: there is no room still.
  bool take(const std::string& tenant, size_t bytes, size_t leave = 0);
  void give(const std::string& tenant, size_t bytes) { memory_.give(tenant, bytes); }

  size_t bytes() const;  // of those that are kept, as of when each was last asked for
  size_t entries() const;
  const GrammarMemory& memory() const { return memory_; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const grammar::Compiled> compiled;
    size_t bytes = 0;
  };
  struct Tenant {
    std::list<Entry> order;  // the last used first
    SeededViewMap<std::list<Entry>::iterator> by_key;
    std::weak_ptr<grammar::MaskStore> masks;  // its grammars hold them
    size_t bytes = 0;
  };
  using Tenants = SeededMap<Tenant>;
  using Gone = std::vector<std::shared_ptr<const grammar::Compiled>>;  // after the lock

  // With mutex_ held.
  void refresh(Tenant& tenant, Entry& entry);
  void remove(Tenants::iterator tenant, std::list<Entry>::iterator entry, Gone& gone);
  void make_room(Gone& gone);
  bool drop_unused(Tenants::iterator tenant, Gone& gone);
  Tenants::iterator largest();

  static constexpr size_t kMaskBytes = size_t{8} << 20;  // of one tenant

  const size_t most_;
  GrammarMemory memory_;
  mutable std::mutex mutex_;  // guards all below
  Tenants tenants_;
  size_t bytes_ = 0;
};

}  // namespace ingot
