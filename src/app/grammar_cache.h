// Compiled grammars by tenant and source, the least recently used of the largest tenant going first. Tenants find their
// own alone: what one has asked for cannot be told from how long another's takes. Any thread.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "grammar/compile.h"

namespace ingot {

class GrammarCache {
 public:
  // `bytes`: of all of them together, as grammar::Compiled::memory() tells; 0: none is kept.
  explicit GrammarCache(size_t bytes) : most_(bytes) {}

  std::shared_ptr<const grammar::Compiled> find(const std::string& tenant, const std::string& key);
  void keep(const std::string& tenant, const std::string& key, std::shared_ptr<const grammar::Compiled> compiled);

  size_t bytes() const;  // as of the last keep()
  size_t entries() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const grammar::Compiled> compiled;
    size_t bytes = 0;
  };
  struct Tenant {
    std::list<Entry> order;  // the last used first
    std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key;
    size_t bytes = 0;
  };

  void measure();
  void make_room();

  const size_t most_;
  mutable std::mutex mutex_;  // guards all below
  std::unordered_map<std::string, Tenant> tenants_;
  size_t bytes_ = 0;
};

}  // namespace ingot
